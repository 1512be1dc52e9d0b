# The Metal backend's host files and its shader text, which is one file made of these: metal_source.metal, the same as
# metal_source.c, in ${INGOT_METAL_GENERATED}.
set(metal ${CMAKE_SOURCE_DIR}/backends/metal)
set(INGOT_METAL_HOST_SOURCES ${metal}/archive.c ${metal}/archive_files.c ${metal}/device.c ${metal}/mapped.c ${metal}/memory.c ${metal}/matrices.c ${metal}/metal.c ${metal}/objc.c
  ${metal}/ops_attention.c ${metal}/ops_delta.c ${metal}/ops_gates.c ${metal}/ops_inputs.c ${metal}/ops_linear.c ${metal}/ops_logits.c
  ${metal}/ops_moe.c ${metal}/ops_rows.c
  ${metal}/pool.c ${metal}/queue.c ${metal}/scaled.c ${metal}/weight.c)
set(INGOT_METAL_GENERATED ${CMAKE_BINARY_DIR}/metal)
set(gpu ${CMAKE_SOURCE_DIR}/backends/gpu)
set(metal_text ${metal}/shaders/prelude.metal ${CMAKE_SOURCE_DIR}/common/dtype.h
  ${CMAKE_SOURCE_DIR}/backends/exact_math.h ${CMAKE_SOURCE_DIR}/backends/limits.h ${gpu}/args.h ${metal}/args.h
  ${gpu}/reduce.h ${gpu}/activated.h ${gpu}/gates.h ${gpu}/keys.h ${gpu}/logits.h ${gpu}/moe.h ${gpu}/heads.h ${gpu}/inputs.h
  ${metal}/shaders/inputs.metal ${metal}/shaders/rows.metal ${metal}/shaders/delta.metal ${metal}/shaders/scaled.metal
  ${metal}/shaders/quant.metal ${metal}/shaders/pieces.metal ${metal}/shaders/linear.metal ${metal}/shaders/matrix.metal
  ${metal}/shaders/moe.metal ${metal}/shaders/moe_matrix.metal ${metal}/shaders/attention.metal
  ${metal}/shaders/attention_matrix.metal)
string(REPLACE ";" "|" metal_files "${metal_text}")
file(MAKE_DIRECTORY ${INGOT_METAL_GENERATED})
add_custom_command(OUTPUT ${INGOT_METAL_GENERATED}/metal_source.metal ${INGOT_METAL_GENERATED}/metal_source.c
  COMMAND ${CMAKE_COMMAND} "-DFILES=${metal_files}" -DTEXT=${INGOT_METAL_GENERATED}/metal_source.metal
    -DSOURCE=${INGOT_METAL_GENERATED}/metal_source.c -DNAME=metal_source -P ${CMAKE_SOURCE_DIR}/cmake/embed_text.cmake
  DEPENDS ${metal_text} ${CMAKE_SOURCE_DIR}/cmake/embed_text.cmake VERBATIM)
