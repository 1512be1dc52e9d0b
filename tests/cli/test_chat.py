"""`ingot chat` at a terminal: line editing, history, pasted text, Ctrl-C, the commands, a full context, and the
terminal's mode afterwards. The server is made up here, except where the context is that of a model."""
import json
import os
import pathlib
import signal
import stat

from cli_tools import PROMPT, Terminal, ingot, ok, usual_mode, wait_until
from made_up_server import Held, Server, prompt_of, turns_of
import tap
import temp_dir
from cluster import DEMO, Cluster

PASTE_ON, PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"  # around the editing of a line
UP, DOWN, RIGHT, LEFT = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D"
CTRL_A, CTRL_C, CTRL_D, CTRL_R, CTRL_W = "\x01", "\x03", "\x04", "\x12", "\x17"


def echo(request):
    """Answers with the last message in brackets."""
    return [b"[", request.chat.turn[-1].content, b"]"]


def paste(text):
    return f"\x1b[200~{text}\x1b[201~"


class Chat:
    """A terminal with `ingot chat` at its prompt, and the server."""

    def __init__(self, *args, server=None, **kw):
        self.server = server or Server(answer=echo)
        self.args, self.kw = args, kw

    def __enter__(self):
        self.server.__enter__()
        self.t = Terminal("chat", "--connect", self.server.endpoint, *self.args, **self.kw)
        self.greeting = self.t.until(PROMPT)
        return self

    def __exit__(self, *exc):
        try:
            if not exc[0]:
                self.t.type(CTRL_D)
                assert self.t.wait() == 0
        finally:
            self.server.__exit__()

    def say(self, keys):
        """What is shown between the line that the keys end and the next prompt."""
        self.t.type(keys)
        self.t.until(PASTE_OFF)
        return self.t.until(PROMPT)[:-len(PROMPT)].replace(PASTE_ON, "").replace("\r\n", "\n")

    def sent(self):
        return [r.chat.turn[-1].content.decode() for r in self.server.requests]


def history_of(home):
    return pathlib.Path(home) / ".local" / "state" / "ingot" / "chat_history"


# ---- editing and history ----


@tap.case
def arrows_edit_the_line():
    with Chat() as c:
        c.say("worl" + LEFT * 4 + "hello " + RIGHT * 4 + "d\r")
        c.say("three little words" + CTRL_W + CTRL_W + "pigs" + CTRL_A + "the \r")
        c.say("first line\x1b\rsecond line\r")  # Alt-Enter
        assert c.sent() == ["hello world", "the three pigs", "first line\nsecond line"], c.sent()


@tap.case
def characters_of_several_bytes():
    for env in ({}, {"LC_ALL": "C"}, {"LC_ALL": "POSIX", "LANG": ""}):
        with Chat(env=env) as c:
            c.say("Zwölf Bären" + LEFT * 5 + "x" + "\r")
            c.say("日本語🙂" + LEFT + LEFT + "の\r")
            c.say(b"a\xff\xc3b\r")  # no UTF-8
            assert c.sent() == ["Zwölf xBären", "日本の語🙂", "a\ufffd\ufffdb"], (env, c.sent())


@tap.case
def earlier_messages_come_back():
    home = temp_dir.make()
    with Chat(home=home) as c:
        for text in ("one", "two", "two", "   ", "three"):
            c.say(text + "\r")
        c.say(UP + UP + "!\r")
        c.say(UP * 4 + DOWN + "?\r")  # neither the blank line nor the second "two" is there
        assert c.sent() == ["one", "two", "two", "three", "two!", "two?"], c.sent()
    with Chat(home=home) as c:  # another conversation knows them
        c.say(UP * 4 + "\r")
        c.say(CTRL_R + "thr" + "\r")
        assert c.sent() == ["two", "three"], c.sent()
    with Chat("--no-history", home=home) as c:
        c.say("secret\r")
        c.say(UP + UP + "\r")  # there is nothing but this conversation
        assert c.sent() == ["secret", "secret"], c.sent()
    lines = history_of(home).read_text().splitlines()
    assert lines == ["one", "two", "three", "two!", "two?", "two", "three"], lines


@tap.case
def the_history_file_is_the_users_alone():
    home = temp_dir.make()
    path = history_of(home)
    old = os.umask(0)
    try:
        with Chat(home=home) as c:
            c.say("one\r")
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    with temp_dir.folder() as state, Chat(home=home, env={"XDG_STATE_HOME": state}) as c:
        c.say("two\r")
        assert (pathlib.Path(state) / "ingot" / "chat_history").read_text() == "two\n"
    with Chat(home=home) as c:
        c.say(UP + "\r")
    assert c.sent() == ["one"] and stat.S_IMODE(path.stat().st_mode) == 0o600


@tap.case
def messages_of_several_lines_are_kept_whole():
    home = temp_dir.make()
    text = "C:\\new\n\\\\n\n\tend"
    with Chat(home=home) as c:
        c.say(paste(text) + "\r")
    with Chat(home=home) as c:
        c.say(UP + "\r")
        assert c.sent() == [text], c.sent()
    assert len(history_of(home).read_text().splitlines()) == 1


@tap.case
def the_history_file_does_not_grow_for_ever():
    home = temp_dir.make()
    path = history_of(home)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(b"message %d\n" % i for i in range(2001)) + b"torn")
    with Chat(home=home) as c:
        c.say(UP + "\r")
        assert c.sent() == ["message 2000"], c.sent()
    lines = path.read_bytes().splitlines()
    assert lines[:2] == [b"message 1001", b"message 1002"] and len(lines) == 1001, (len(lines), lines[:2], lines[-2:])
    path.write_bytes(b"a\0b\n\n\xff\nlast\n")  # no file of ours
    with Chat(home=home) as c:
        c.say(UP + "\r")
        assert c.sent() == ["last"], c.sent()


@tap.case
def without_a_history_file():
    for env, said in [({"HOME": "/dev/null"}, "cannot make the folder"), ({"HOME": ""}, "HOME is set")]:
        with Chat(env=env) as c:
            assert "No history is kept: " in c.greeting and said in c.greeting, c.greeting
            c.say("one\r")
            c.say(UP + "\r")
            assert c.sent() == ["one", "one"], c.sent()
    home = temp_dir.make()
    path = history_of(home)
    path.parent.mkdir(parents=True)
    path.symlink_to("/dev/null")
    with Chat(home=home) as c:
        assert "No history is kept: " in c.greeting, c.greeting


# ---- pasted text ----


@tap.case
def pasted_lines_are_one_message():
    with Chat() as c:
        for text, message in [("line one\nline two", "line one\nline two"), ("a\r\nb\r\nc\r\n", "a\nb\nc"),
                              ("a\rb", "a\nb"), ("\n\nx", "\n\nx"), ("a\n\n\nb", "a\n\n\nb"), ("nul\0nul", "nulnul"),
                              ("an \x1b[200 and \x1b[201 and \x1b\x1b", "an \x1b[200 and \x1b[201 and \x1b\x1b")]:
            c.say(paste(text) + "\r")
            assert c.sent()[-1] == message, (text, c.sent()[-1])
        c.say("before " + paste("one\ntwo") + " after\r")
        c.say(paste("") + "nothing\r")
        c.say(paste("x\ny") + paste("z") + LEFT + "\x7f" + "\r")
        assert c.sent()[-3:] == ["before one\ntwo after", "nothing", "x\nz"], c.sent()[-3:]


@tap.case
def much_pasted_text():
    text = "\n".join(f"line {i} of what is pasted" for i in range(8000))
    with Chat() as c:
        c.say(paste(text) + "\x1b\rwhat is it?\r")
        assert c.sent() == [text + "\nwhat is it?"]
        shown = c.say(paste("x" * (1 << 20) + "\ny") + "z")
        assert "a message is longer than 1048576 bytes" in shown, shown[-200:]
        c.say("\x15short\r")
        assert c.sent()[1:] == ["short"], c.sent()[1:]


# ---- Ctrl-C ----


def drop(t, keys, shown):
    """Types the keys; when they are shown, Ctrl-C. Until the next prompt."""
    t.type(keys)
    t.until(shown)  # a Ctrl-C takes with it what was not read yet
    t.type(CTRL_C)
    t.until(PASTE_OFF)
    return t.until(PROMPT)


@tap.case
def ctrl_c_at_the_prompt():
    with Chat() as c:
        drop(c.t, "not sent", "sent")
        c.say("sent\r")
        for _ in range(3):  # lines that are dropped do not end it, however many
            assert "once more" not in drop(c.t, "not sent", "sent")
        c.say("sent too\r")
        assert "once more" in drop(c.t, "", "")
        c.say("and this\r")
        drop(c.t, paste("two\nlines") + LEFT * 6 + "x", "x")
        c.say("end\r")
        assert c.sent() == ["sent", "sent too", "and this", "end"], c.sent()
    for first in ("typed", ""):
        with Server() as s:
            t = Terminal("chat", "--connect", s.endpoint)
            t.until(PROMPT)
            drop(t, first, first)
            t.type(CTRL_C)
            assert t.wait() == 0


@tap.case
def ctrl_c_in_an_answer():
    with Chat(server=Server(Held([b"This never "]), Held([b"Deaf"], deaf=True), [b"Fine."])) as c:
        c.t.type("one\r")
        c.t.until("This never ")
        c.t.type(CTRL_C)
        c.t.until(PROMPT)
        assert c.server.cancelled == [c.server.requests[0].request_id]
        c.t.type("two\r")
        c.t.until("Deaf")
        c.t.type(CTRL_C)
        wait_until(lambda: len(c.server.cancelled) == 2)
        c.t.type(CTRL_C)  # the server does not end it: the second one does not wait
        c.t.until(PROMPT)
        assert "Fine." in c.say("three\r")
        assert turns_of(c.server.requests[2]) == [
            ("user", "one"), ("assistant", "This never "), ("user", "two"), ("assistant", "Deaf"), ("user", "three")]


@tap.case
def keys_typed_during_an_answer():
    with Server(Held([b"Begun"]), [b"Next."]) as s:
        t = Terminal("chat", "--connect", s.endpoint)
        t.until(PROMPT)
        t.type("one\r")
        t.until("Begun")
        t.type("two\r" + CTRL_D)
        t.until("two\r\n")  # the terminal's own echo: they wait in its queue
        os.kill(t.pid, signal.SIGINT)
        t.until("Next.")
        assert t.wait() == 0
        assert turns_of(s.requests[1])[-1] == ("user", "two"), turns_of(s.requests[1])


# ---- commands ----


@tap.case
def reset_and_system():
    with Chat() as c:
        c.say("one\r")
        assert c.say("/system Be brief.\r") == "the system turn is set\n"
        c.say("two\r")
        assert turns_of(c.server.requests[-1]) == [
            ("system", "Be brief."), ("user", "one"), ("assistant", "[one]"), ("user", "two")]
        c.say("/system  Be\x1b\rlong. \r")
        c.say("three\r")
        assert turns_of(c.server.requests[-1])[0] == ("system", "Be\nlong.")
        assert c.say("/reset\r") == "the conversation is forgotten\n"
        c.say("four\r")
        assert turns_of(c.server.requests[-1]) == [("system", "Be\nlong."), ("user", "four")]
        assert c.say("/system\r") == "there is no system turn\n"
        c.say("five\r")
        assert turns_of(c.server.requests[-1]) == [("user", "four"), ("assistant", "[four]"), ("user", "five")]


@tap.case
def other_commands():
    with Chat("--temperature", "0") as c:
        shown = c.say("/help\r")
        for name in ("/help", "/reset", "/system", "/shift", "/params", "/quit"):
            assert f"\n  {name}" in shown, shown
        assert shown.split("\n  /help")[1] in ok("chat", "--help")
        assert "there is no command /etc/passwd; /help lists them" in c.say("/etc/passwd\r")
        assert "there is no command /x\\x1b" in c.say(paste("/x\x1b[5m") + "\r")
        c.say("//etc/passwd\r")
        assert c.sent() == ["/etc/passwd"], c.sent()
        assert c.say("/shift\r") == "when the context is full, messages are refused\n"
        assert c.say("/shift on\r") == c.say("/shift\r") == "when the context is full, the oldest turns leave\n"
        assert c.say("/shift maybe\r") == "write /shift on or /shift off\n"
        assert c.say("/shift off\r") == "when the context is full, messages are refused\n"
        assert "temperature = 0\n" in c.say("/params\r")
        c.say("/params temperature=0.5 seed=7\r")
        c.say("again\r")
        assert c.server.requests[-1].sampling.temperature == 0.5 and c.server.requests[-1].sampling.seed == 7
    with Server() as s:
        t = Terminal("chat", "--connect", s.endpoint)
        t.until(PROMPT)
        t.type("/quit\r")
        assert t.wait() == 0


# ---- a full context ----


@tap.case
def shift_lets_the_oldest_turns_leave():
    """A token is a byte and a turn one more: of 100 tokens a quarter must be free, then a half gets free."""
    with Chat("--shift", "--system", "s" * 9, server=Server(answer=lambda r: [b"a" * 9], max_ctx=100)) as c:
        notes = [c.say(f"{i:09d}\r") for i in range(6)]
        # 10 of the system, 20 a turn and its answer: the prompts are 20, 40, 60, then 80 is too much
        assert not any("left" in n for n in notes[:3]), notes
        assert "The context is full: the 4 oldest turns have left the conversation." in notes[3], notes[3]
        # 40 tokens again, 60, and once more 80
        assert "left" not in notes[4] and "the 4 oldest turns have left" not in notes[4], notes[4]
        sent = [turns_of(r) for r in c.server.requests]
        assert sent[3] == [("system", "s" * 9), ("user", "000000002"), ("assistant", "a" * 9), ("user", "000000003")]
        assert sent[4][0] == ("system", "s" * 9) and len(sent[4]) == 6, sent[4]
        assert all(len(prompt_of(r.chat)) <= 75 for r in c.server.requests)
        # with max-tokens so much must be free, and no more
        c.say("/params max-tokens=20\r")
        c.say("/reset\r")
        for i in range(4):
            assert "left" not in c.say(f"{i:09d}\r")
        assert len(prompt_of(c.server.requests[-1].chat)) == 80
        assert "the 6 oldest turns have left" in c.say("000000004\r")
        # a message that fits by no means takes nothing with it
        before = len(turns_of(c.server.requests[-1]))
        assert "left" not in c.say("x" * 120 + "\r")
        assert len(turns_of(c.server.requests[-1])) == before + 2


def stats_of(c):
    return json.loads(ok("status", "--connect", c.endpoint, "--json"))


@tap.case
def a_full_context_has_ways_out():
    with Cluster(DEMO, extra=["--max-ctx", "96"]) as c:
        at = ["chat", "--connect", c.endpoint, "--temperature", "0", "--ignore-eos", "--system", "Be brief."]
        t = Terminal(*at)
        t.until(PROMPT)

        def say(line):
            t.type(line + "\r")
            t.until(PASTE_OFF)
            return t.until(PROMPT).replace("\r\n", " ")

        assert "The context of 96 tokens is full. /reset forgets" in say("Tell me a story."), "the answer fills it"
        said = say("Go on.")
        assert "it must fit a context of 96" in said and "/shift on lets its oldest turns leave" in said, said
        finished = stats_of(c)["finished"]
        said = say("/shift on") + say("Tell me another story.")
        assert "the 2 oldest turns have left the conversation" in said, said
        assert stats_of(c)["finished"] == finished + 1
        say("/shift off")
        assert "it must fit" in say("Go on.")
        say("/reset")
        assert "it must fit" not in say("Tell me a story.")
        t.type(CTRL_D)
        assert t.wait() == 0
        # in a pipe
        story = "Tell me a story.\nGo on.\nAnd on.\n"
        p = ingot(*at, stdin=story)
        assert p.returncode == 4 and "With --shift the oldest turns leave." in p.stderr, p
        p = ingot(*at, "--shift", stdin=story)
        assert p.returncode == 0 and p.stderr.count("have left the conversation") == 2, p
        p = ingot(*at, "--shift", stdin="word " * 200 + "\n")
        assert p.returncode == 4 and "left" not in p.stderr and "/reset" not in p.stderr, p


# ---- the terminal ----


@tap.case
def the_terminal_is_as_before():
    fatal = [signal.SIGQUIT, signal.SIGABRT]
    for how in ("/quit\r", CTRL_D, signal.SIGTERM, signal.SIGHUP, *fatal):
        with Server() as s:
            t = Terminal("chat", "--connect", s.endpoint)
            usual = usual_mode()  # before the program, which may have changed it by now
            assert PASTE_ON in t.until(PROMPT)
            wait_until(lambda: not t.is_usual())
            t.type("half a line")
            t.until("line")
            if isinstance(how, str):
                t.type("\x15" + how)
            else:
                os.kill(t.pid, how)
            t.until(PASTE_OFF)
            rc = t.ended()
            assert rc == (0 if isinstance(how, str) else -how if how in fatal else 130), (how, rc)
            assert t.mode() == usual and PASTE_ON not in t.seen, how
            t.close()


@tap.case
def an_answer_has_the_usual_mode():
    with Server(Held([b"Begun"]), Held([b"Again"])) as s:
        t = Terminal("chat", "--connect", s.endpoint)
        usual = usual_mode()
        t.until(PROMPT)
        t.type("one\r")
        t.until("Begun")
        assert t.mode() == usual
        t.type(CTRL_C)
        t.until(PROMPT)
        t.type("two\r")
        t.until("Again")
        os.kill(t.pid, signal.SIGTERM)  # cancels it and ends the conversation
        assert t.ended() == 130 and len(s.cancelled) == 2
        assert t.mode() == usual
        t.close()


@tap.case
def ctrl_z_and_back():
    with Chat() as c:
        for text in ("half a line", " and more"):
            c.t.type(text)
            c.t.until(text)
            c.t.type("\x1a")
            c.t.until(PASTE_OFF)
            wait_until(lambda: pathlib.Path(f"/proc/{c.t.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T")
            assert c.t.is_usual()
            os.kill(c.t.pid, signal.SIGCONT)
            assert PASTE_ON in c.t.until("half a line")
            wait_until(lambda: not c.t.is_usual())
        c.say(" goes on\r")
        assert c.sent() == ["half a line and more goes on"], c.sent()


@tap.case
def a_terminal_that_goes_away():
    with Server() as s:
        t = Terminal("chat", "--connect", s.endpoint)
        t.until(PROMPT)
        master, t.fd = t.fd, os.open("/dev/null", os.O_RDWR)
        os.close(master)
        assert t.ended() in (0, 130)
        t.close()


@tap.case
def terminals_without_line_editing():
    for env in ({"TERM": "dumb"}, {"TERM": ""}):
        with Server([b"Fine."], [b"Good."]) as s:
            t = Terminal("chat", "--connect", s.endpoint, env=env)
            assert "No line editing: " in t.until(PROMPT)
            t.type("one\n")
            t.until("Fine.")
            t.until(PROMPT)
            t.type("dropped" + CTRL_C)
            t.until("once more")
            t.until(PROMPT)
            t.type("two\n")
            seen = t.until("Good.") + t.until(PROMPT)
            assert PASTE_ON not in seen
            t.type(CTRL_C)
            t.until(PROMPT)
            t.type(CTRL_C)
            assert t.wait() == 0
            assert [r.chat.turn[-1].content for r in s.requests] == [b"one", b"two"]


@tap.case
def the_build_says_whether_it_edits_lines():
    assert "line editing of chat: libedit" in ok("version")
    assert "Line editing: libedit" in ok("chat", "--help")


os.environ.pop("NO_COLOR", None)
tap.main()
