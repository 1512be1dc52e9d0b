"""Pinned packages of the Python registry that tests read or compare with, each checked by its digest, kept under build/ for
the next run.  Without the registry the case is skipped."""
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
import zipfile

import tap

KEPT = pathlib.Path(__file__).resolve().parents[2] / "build" / "packages"


def fetch(requirement, digest, *options):
    """The path of the one file of a package: a source archive or a wheel."""
    place = KEPT / digest[:16]
    if not place.is_dir():
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as scratch:
            wanted = pathlib.Path(scratch) / "wanted.txt"
            wanted.write_text("%s --hash=sha256:%s\n" % (requirement, digest))
            new = pathlib.Path(scratch) / "new"
            done = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps",
                                   "--require-hashes", *options, "-d", new, "-r", wanted], stdin=subprocess.DEVNULL, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=tap.LIMIT)
            if done.returncode:
                assert "do not match the hashes" not in done.stdout, done.stdout
                raise tap.Skip("%s cannot be fetched: %s" % (requirement, (done.stdout.strip().splitlines() or ["pip failed"])[-1][:120]))
            try:
                new.rename(place)
            except OSError:  # another test was quicker
                assert place.is_dir()
    (path,) = place.iterdir()
    return path


def index():
    """Where pip looks for packages."""
    from pip._internal.models.index import PyPI
    said = subprocess.run([sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True)
    return (os.environ.get("PIP_INDEX_URL") or said.stdout.strip() or PyPI.simple_url).rstrip("/") + "/"


def source_archive(name, version, digest):
    """The path of a package's source archive.  pip would build it before it hands it over."""
    path = KEPT / f"{name}-{version}.tar.gz"
    if not path.is_file():
        KEPT.mkdir(parents=True, exist_ok=True)
        page = f"{index()}{name}/"
        try:
            with urllib.request.urlopen(page, timeout=60) as r:
                link = re.search(rf'href="([^"]*{re.escape(path.name)}[^"]*)"', r.read().decode())
            with urllib.request.urlopen(urllib.parse.urljoin(page, link.group(1)), timeout=60) as r:
                data = r.read()
        except (OSError, AttributeError) as e:
            raise tap.Skip(f"{path.name} cannot be fetched: {str(e)[:120]}")
        assert hashlib.sha256(data).hexdigest() == digest, f"{path.name} has another digest"
        with tempfile.NamedTemporaryFile(dir=KEPT, delete=False) as f:
            f.write(data)
        os.replace(f.name, path)
    return path


def json_schema_suite():
    return source_archive("jsonschema", "4.23.0", "d71497fef26351a33265337fa77ffeb82423f3ea21283cd9467bb03999266bc4")


def llguidance():
    """The module of the wheel for this machine."""
    wheel = fetch("llguidance==1.9.1", "dfac6021d9c4c5ef16b3a1d336c05ca5e8208ff30dec29d1c63ebcafbee3a346", "--only-binary", ":all:")
    place = wheel.parent.parent / (wheel.parent.name + ".unpacked")
    if not place.is_dir():
        with tempfile.TemporaryDirectory(dir=KEPT) as scratch:
            zipfile.ZipFile(wheel).extractall(os.path.join(scratch, "all"))
            try:
                os.rename(os.path.join(scratch, "all"), place)
            except OSError:
                assert place.is_dir()
    sys.path.insert(0, str(place))
    try:
        import llguidance as module
    except ImportError as e:
        raise tap.Skip("llguidance's wheel does not load here: %s" % e)
    return module
