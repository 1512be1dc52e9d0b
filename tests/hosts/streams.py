"""The streams of these tests: greedy and sampled, with log probabilities."""
STREAMS, TOKENS = 6, 200


def start(client):
    return [client.start(text=b"Once upon a time" if i % 2 else b"The little dog", max_tokens=TOKENS,
                         sampling={"temperature": 0.0 if i < 2 else 0.9, "seed": i + 1, "ignore_eos": True, "logprobs": True})
            for i in range(STREAMS)]


def finish(client, rids):
    got = client.collect(rids)
    for rid in rids:
        assert got[rid].finish, got[rid].error
    return [got[rid].key() for rid in rids]
