"""A client in Ruby, written from proto/ingot.proto alone, against the demo model: each of its checks is a case."""
import pathlib
import re
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import tap  # noqa: E402
from cluster import DEMO, ROOT, Cluster  # noqa: E402


def what_is_missing():
    """What deploy/install-packages.sh --tests would install, or None."""
    for command in (["protoc", "--version"], ["ruby", "-e", "require 'ffi-rzmq'; require 'google/protobuf'"]):
        try:
            if subprocess.run(command, capture_output=True).returncode:
                return "the Debian packages ruby-ffi-rzmq and ruby-google-protobuf"
        except FileNotFoundError:
            return command[0]
    return None


def check(ok, name, why):
    """A case that tells what a check of the client found."""
    def found():
        assert ok, why
    found.__name__ = re.sub(r"\W+", "_", name).strip("_").lower()
    tap.case(found)


@tap.case
def the_client_runs_to_its_end():
    if missing := what_is_missing():
        raise tap.Skip(f"needs {missing}")
    with Cluster(DEMO) as c:
        r = subprocess.run(["ruby", ROOT / "tests" / "cluster" / "client.rb", c.endpoint], capture_output=True,
                           text=True)
    checks = re.findall(r"^(not )?ok - ([^:\n]+)(.*)$", r.stdout, re.M)
    for failed, name, why in checks:
        check(not failed, name, why)  # tap.main() comes to it next
    assert checks and r.returncode == any(failed for failed, _, _ in checks), (r.stdout, r.stderr)


tap.main()
