# cmake -DFILES=a|b|c -DTEXT=out.metal -DSOURCE=out.c -DNAME=symbol -P embed_text.cmake: the files one after the other
# without their includes and what they declare as extern "C" (prelude.metal's <metal_stdlib> stays), as one text and as
# `const char NAME[]`.
string(REPLACE "|" ";" FILES "${FILES}")
set(all "")
foreach(file ${FILES})
  file(READ ${file} text)
  string(REGEX REPLACE "#include (\"|<[^m]|<math)[^\n]*\n" "" text "${text}")
  string(REGEX REPLACE "#ifdef __cplusplus\nextern [^}]*}\n#endif\n" "" text "${text}")
  string(APPEND all "${text}")
endforeach()
file(WRITE ${TEXT} "${all}")
file(READ ${TEXT} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],)" "\\1\n" bytes "${bytes}")
file(WRITE ${SOURCE} "extern const char ${NAME}[];\nconst char ${NAME}[] = {${bytes}0x00};\n")
