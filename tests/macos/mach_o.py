"""Names that a Mach-O file of 64 bits takes from libraries (Apple's mach-o/loader.h and mach-o/nlist.h)."""
import struct

MAGIC, SYMTAB, TYPE, EXTERNAL, UNDEFINED = 0xFEEDFACF, 2, 0x0E, 0x01, 0x00


def undefined(path):
    data = open(path, "rb").read()
    magic, _, _, _, n_commands, _ = struct.unpack_from("<IiiIII", data)
    assert magic == MAGIC, f"{path} is no Mach-O file of 64 bits"
    at, names = 32, set()
    for _ in range(n_commands):
        command, size = struct.unpack_from("<II", data, at)
        if command == SYMTAB:
            symbols, n, strings, _ = struct.unpack_from("<IIII", data, at + 8)
            for i in range(n):
                name, kind, _, _, _ = struct.unpack_from("<IBBHQ", data, symbols + 16 * i)
                if kind & TYPE == UNDEFINED and kind & EXTERNAL:
                    names.add(data[strings + name:data.index(0, strings + name)].decode())
        at += size
    assert names, f"{path} has no table of symbols"
    return names
