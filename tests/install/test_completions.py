"""Completions of bash and zsh, asked for by the tab key on a terminal."""
import os
import pty
import re
import select
import shutil
import subprocess
import time

from prefix import HERE, LIMIT, install
import tap
import temp_dir

PREFIX = install()
BASH = PREFIX / "share/bash-completion/completions/ingot"


def complete(*words):
    """What bash offers for the last word, by the function alone."""
    listed = " ".join(f"'{w}'" for w in words)
    script = (f"source '{BASH}'; COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _ingot; "
              "printf '%s\\n' \"${COMPREPLY[@]}\"")
    p = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, timeout=LIMIT,
                       env={**os.environ, "PATH": f"{PREFIX}/bin:{os.environ['PATH']}"})
    assert p.returncode == 0 and not p.stderr, p
    return p.stdout.split()


class Shell:
    """An interactive shell on a terminal."""

    def __init__(self, *argv, env=None):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update({"TERM": "dumb", "PS1": "ready> ", "PATH": f"{PREFIX}/bin:{os.environ['PATH']}",
                               **(env or {})})
            os.execvp(argv[0], argv)
        self.seen = ""

    def type(self, text):
        os.write(self.fd, text.encode())

    def until(self, text):
        end = time.monotonic() + LIMIT
        while text not in self.seen:
            assert select.select([self.fd], [], [], max(0, end - time.monotonic()))[0], (text, self.seen)
            self.seen += os.read(self.fd, 65536).decode(errors="replace")
        _, _, self.seen = self.seen.partition(text)

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


@tap.case
def bash_knows_commands_options_and_choices():
    assert complete("ingot", "ser") == ["serve"]
    assert {"serve", "chat", "help", "--version"} <= set(complete("ingot", ""))
    assert complete("ingot", "help", "quan") == ["quantize"]
    assert complete("ingot", "pull", "org/name", "--conn") == ["--connections"]
    assert complete("ingot", "serve", "--kv-d") == ["--kv-dtype"]
    assert complete("ingot", "serve", "--kv-dtype", "b") == ["bf16"]
    assert complete("ingot", "serve", "--kv-dtype", "=", "e") == ["e4m3"]
    assert set(complete("ingot", "serve", "--kv-dtype", "=")) == {"auto", "f32", "f16", "bf16", "int8", "e4m3"}
    assert complete("ingot", "serve", "--no-pre") == ["--no-prefix-cache"]
    assert complete("ingot", "run", "demo-") == ["demo-model"]
    assert complete("ingot-worker", "--bac") == ["--backend"]
    assert complete("ingot", "quantize", "--typ") == ["--type"]
    assert complete("ingot", "nonsense", "--x") == []
    assert complete("ingot", "serve", "--pack-cache", "a") == [] == complete("ingot", "serve", "/us")  # files, by readline
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "-s", "bash", BASH], check=True)


@tap.case
def the_tab_key_in_bash():
    with temp_dir.folder() as home:
        shell = Shell("bash", "--norc", "--noprofile", "-i", env={"HOME": home, "INPUTRC": "/dev/null"})
        shell.until("ready> ")
        shell.type(f"source '{BASH}'; echo loa''ded\n")
        shell.until("loaded")
        shell.until("ready> ")
        shell.type("ingot serv\t")
        shell.until("ingot serve ")
        shell.type("--target-itl\t")
        shell.until("--target-itl-ms ")
        shell.type("\x03exit\n")
        shell.close()


@tap.case
def the_tab_key_in_zsh():
    if not shutil.which("zsh"):
        raise tap.Skip("there is no zsh")
    functions = next(PREFIX.glob("share/zsh/*"))
    with temp_dir.folder() as home:
        shell = Shell("zsh", "-f", "-i", env={"HOME": home, "ZDOTDIR": home})
        shell.type(f"fpath=('{functions}' $fpath); autoload -U compinit; compinit -D -u; PS1='zsh''-is> '\n")
        shell.until("zsh-is> ")
        shell.type("ingot serv\t")
        shell.until("ingot serve ")
        shell.type("--target-itl\t")
        shell.until("--target-itl-ms")
        shell.type("5 --kv-dtype=bf\t")
        shell.until("--kv-dtype=bf16")
        shell.type("\x03exit\n")
        shell.close()


tap.main()
