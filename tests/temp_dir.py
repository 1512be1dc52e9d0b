"""Folders of a test's own that do not outlive it: see tests/temp_dir.h, which does the same in C.

    import temp_dir
    path = temp_dir.make()          # removed when the program ends
    with temp_dir.folder() as path: # removed at the end of the block
"""
import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
import time

PREFIX = "ingot-tmp-"
MIN_AGE_S = 60  # younger ones may be between being made and being locked


def reap():
    """Removes what killed tests have left: folders of ours that are not locked."""
    root = tempfile.gettempdir()
    for name in os.listdir(root):
        path = os.path.join(root, name)
        try:
            st = os.lstat(path)
            if not name.startswith(PREFIX) or st.st_uid != os.getuid() or time.time() - st.st_mtime < MIN_AGE_S:
                continue
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except OSError:
            pass  # in use
        finally:
            os.close(fd)


def make():
    reap()
    path = tempfile.mkdtemp(prefix=PREFIX)
    fcntl.flock(os.open(path, os.O_RDONLY | os.O_CLOEXEC), fcntl.LOCK_EX)  # until the program ends
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@contextlib.contextmanager
def folder():
    path = make()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
