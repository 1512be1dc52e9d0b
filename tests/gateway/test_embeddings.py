"""/v1/embeddings, /api/embed and /api/embeddings: with OpenAI's and Ollama's own clients, and bad requests."""
import base64
import json
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import embed_model  # noqa: E402
import encoder_model  # noqa: E402
import tap  # noqa: E402
from api import Api  # noqa: E402
from client_setup import load, raised  # noqa: E402
from cluster import Parts  # noqa: E402
from gateway_process import Gateway  # noqa: E402

openai, ollama = load("openai"), load("ollama")
EMBED = "/v1/embeddings"
TOLERANCE = 1e-5
api = url = None
ROWS = [r for r in embed_model.rows("last") if "prompt_name" not in r]


def f32(values):
    """As f32: their decimals in JSON are as short as possible."""
    return struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(values)}f", *values))


def close(got, row):
    return embed_model.off(got, row["embedding"]) < TOLERANCE


@tap.case
def an_encoder():
    """The doors do not depend on the kind of model; answers are refused."""
    rows = [r for r in encoder_model.EXPECTED["bert"] if "text" in r]
    with Parts(encoder_model.HERE / "bert") as c, Gateway("--connect", c.endpoint) as g:
        g.wait_ready()
        own = Api(g)
        status, a = own.post(EMBED, input=[r["text"] for r in rows])
        assert status == 200 and all(close(d["embedding"], r) for d, r in zip(a["data"], rows)), a
        status, a = own.post("/api/embed", input=[r["text"] for r in rows])
        assert status == 200 and all(close(v, r) for v, r in zip(a["embeddings"], rows)), a
        status, a = own.post("/v1/completions", prompt="a", max_tokens=2)
        assert status == 400 and "is an encoder" in a["error"]["message"], a


@tap.case
def a_reranker():
    rows = encoder_model.SCORES["bert-reranker"]
    documents = [r["document"] for r in rows]
    with Parts(encoder_model.HERE / "bert-reranker") as c, Gateway("--connect", c.endpoint) as g:
        g.wait_ready()
        own = Api(g)
        status, a = own.post("/v1/score", text_1=[r["query"] for r in rows], text_2=documents)
        assert status == 200 and [d["index"] for d in a["data"]] == list(range(len(rows))), a
        assert all(abs(d["score"] - r["score"]) < 1e-5 * max(1, abs(r["score"])) for d, r in zip(a["data"], rows)), a
        assert a["usage"]["prompt_tokens"] == sum(len(r["tokens"]) for r in rows), a
        status, one = own.post("/v1/score", text_1=rows[0]["query"], text_2=documents)
        status, a = own.post("/v1/rerank", query=rows[0]["query"], documents=documents)
        want = sorted(((d["score"], -d["index"]) for d in one["data"]), reverse=True)
        assert status == 200 and [(r["relevance_score"], -r["index"]) for r in a["results"]] == want, a
        status, a = own.post("/v1/rerank", query=rows[0]["query"], documents=documents, top_n=2, return_documents=True)
        assert [r["document"]["text"] for r in a["results"]] == [documents[-i] for _, i in want[:2]], a
        for path, body, param, why in (
                ("/v1/rerank", {"documents": ["a"]}, None, "query is missing"),
                ("/v1/rerank", {"query": "a"}, None, "documents is missing"),
                ("/v1/rerank", {"query": "a", "documents": "b"}, "documents", "list of strings"),
                ("/v1/rerank", {"query": "a", "documents": [1, 2]}, None, "documents must be texts"),
                ("/v1/rerank", {"query": ["a"], "documents": ["b"]}, "query", "string"),
                ("/v1/rerank", {"query": "a", "documents": ["b"], "top_n": 0}, "top_n", "1"),
                ("/v1/rerank", {"query": "a", "documents": ["b"], "input": 1}, "input", "input"),
                ("/v1/score", {"text_1": ["a", "b"], "text_2": ["c", "d", "e"]}, None, "one, or as many"),
                ("/v1/score", {"text_2": ["c"]}, None, "text_1 is missing"),
                (EMBED, {"input": "a"}, "document", "needs a document")):
            status, a = own.post(path, **body)
            assert status == 400 and why in json.dumps(a), (path, body, a)
            assert param is None or a["error"]["param"] == param, (path, body, a)


@tap.case
def openai_client():
    if openai is None:
        raise tap.Skip("the Python package openai is not installed (tests/requirements.txt)")
    with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0, timeout=tap.LIMIT) as c:
        texts = [r["text"] for r in ROWS]
        a = c.embeddings.create(model="model", input=texts)  # the client asks for base64
        assert [d.index for d in a.data] == list(range(len(ROWS))) and a.object == "list"
        assert all(close(d.embedding, r) for d, r in zip(a.data, ROWS))
        n = sum(len(r["tokens"]) for r in ROWS)
        assert a.usage.prompt_tokens == a.usage.total_tokens == n, a.usage
        floats = c.embeddings.create(model="model", input=texts, encoding_format="float")
        assert [f32(d.embedding) for d in floats.data] == [f32(d.embedding) for d in a.data]
        ids = c.embeddings.create(model="model", input=[r["tokens"] for r in ROWS])
        assert [d.embedding for d in ids.data] == [d.embedding for d in a.data]
        one = c.embeddings.create(model="model", input=ROWS[0]["tokens"])
        assert one.data[0].embedding == a.data[0].embedding
        cut = c.embeddings.create(model="model", input=texts[0], dimensions=16)
        assert len(cut.data[0].embedding) == 16
        e = raised(openai.BadRequestError, c.embeddings.create, model="model", input="a", dimensions=5)
        assert e.body["param"] == "dimensions", e
        named = next(r for r in embed_model.rows("last") if r.get("prompt_name") == "query")
        q = c.embeddings.create(model="model", input=named["text"], extra_body={"prompt_name": "query"})
        assert close(q.data[0].embedding, named)
        many = c.embeddings.create(model="model", input=[f"text {i}" for i in range(300)])
        assert len({tuple(d.embedding) for d in many.data}) == 300
        assert many.data[7].embedding == c.embeddings.create(model="model", input="text 7").data[0].embedding


@tap.case
def ollama_client():
    if ollama is None:
        raise tap.Skip("the Python package ollama is not installed (tests/requirements.txt)")
    c = ollama.Client(host=url, timeout=tap.LIMIT)
    a = c.embed("model", [r["text"] for r in ROWS])
    assert all(close(v, r) for v, r in zip(a.embeddings, ROWS)) and len(a.embeddings) == len(ROWS)
    assert a.prompt_eval_count == sum(len(r["tokens"]) for r in ROWS) and a.total_duration > 0
    assert close(c.embed("model", ROWS[1]["text"]).embeddings[0], ROWS[1])
    assert close(c.embeddings("model", ROWS[2]["text"]).embedding, ROWS[2])
    assert "embedding" in c.show("model").capabilities
    assert api.ok("/api/embed", model="model", input=[])["embeddings"] == []


@tap.case
def encodings():
    """base64 is the floats' bytes, little endian."""
    floats = api.ok(EMBED, model="model", input="abc", encoding_format="float")["data"][0]["embedding"]
    text = api.ok(EMBED, model="model", input="abc", encoding_format="base64")["data"][0]["embedding"]
    bits = base64.b64decode(text, validate=True)
    assert struct.unpack(f"<{len(bits) // 4}f", bits) == f32(floats)


def refused(path, why, status=400, param=None, **body):
    got, a = api.post(path, **body)
    text = json.dumps(a)
    assert got == status and why in text, (got, a)
    if param is not None:
        assert a["error"]["param"] == param, a


@tap.case
def bad_requests():
    refused(EMBED, "input is missing", model="model")
    refused(EMBED, "there is no prompt in the list", model="model", input=[], param="input")
    refused(EMBED, "a list of tokens is empty", model="model", input=[[1], []])
    refused(EMBED, "at most 2048", model="model", input=["a"] * 2049)
    refused(EMBED, "one of", model="model", input="a", encoding_format="int8")
    refused(EMBED, "temperature", model="model", input="a", temperature=1)
    refused(EMBED, "no prompt", model="model", input="a", prompt_name="none", param="prompt_name")
    refused(EMBED, "the vocabulary ends", model="model", input=[1, 100000], param="input")
    refused(EMBED, "not served", 404, model="other", input="a")
    refused(EMBED, "takes at most 1023", model="model", input="word " * 1000, param="input")
    refused("/api/embed", "truncate", model="model", input="a", truncate=True)
    refused("/api/embed", "string", model="model", input=[[1]])
    refused("/api/embeddings", "string", model="model", prompt=["a"])
    refused("/api/embeddings", "prompt is missing", model="model")


if __name__ == "__main__":
    with embed_model.folder("last") as folder, Parts(folder) as cluster, Gateway("--connect", cluster.endpoint) as g:
        api, url = Api(g), f"http://127.0.0.1:{g.port}"
        g.wait_ready()
        tap.main()
