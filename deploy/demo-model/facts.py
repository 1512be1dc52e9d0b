"""What the demo model may say about Ingot and about itself: only true things.

A fact is (name, words that a right answer contains, questions, answers). Questions and answers are
templates of wording.py; any answer fits any question of its fact.
"""

from wording import upper_first

FACTS = [
    ("what", "cluster", [
        "What is Ingot?", "Tell me about Ingot.", "[Explain|Describe] Ingot.", "What does Ingot do?", "What is Ingot for?",
        "Can you explain what Ingot is?", "I have never heard of Ingot. What is it?", "What kind of [program|software] is Ingot?",
        "Give me a short description of Ingot.", "In one sentence, what is Ingot?", "So what is this Ingot?"],
     ["Ingot is a serving cluster for large language models. It is written in C and [runs|splits] one model over several processes.",
      "Ingot serves large language models on a cluster of processes[ and streams the answers token by token|]. It is written in C.",
      "Ingot is a multi-process tensor-parallel serving cluster for large language models, written in C."]),
    ("language", "C", [
        "[What|Which] [programming |]language is Ingot written in?", "In what language was Ingot written?", "Is Ingot written in C?",
        "What is Ingot made with?", "Which language do the authors of Ingot use?", "Is Ingot a C program?"],
     ["Ingot is written in C.", "It is written in C, in the C11 standard.", "Ingot is a C program[, written in C11|]."]),
    ("licence", "MIT", [
        "[What|Which] licence does Ingot have?", "What is the licence of Ingot?", "Is Ingot free software?", "May I use Ingot at work?",
        "Under what licence is Ingot published?", "Is Ingot open source?", "What are the licence terms of Ingot?"],
     ["Ingot is published under the MIT licence[, so you may use and change it|].", "It has the MIT licence.",
      "Ingot uses the MIT licence, so you may use, change and share it."]),
    ("coordinator", "coordinator", [
        "What does the coordinator do?", "What is the coordinator[ of Ingot| in Ingot|]?", "Explain the coordinator.",
        "What is the job of the coordinator?", "Why does Ingot have a coordinator?", "Describe the work of the coordinator.",
        "Which part of Ingot tokenizes requests?", "Which process does the scheduling?", "Who plans the work in Ingot?"],
     ["The coordinator tokenizes and schedules the requests. It holds no weights.",
      "The coordinator takes the requests, turns the text into tokens and plans the work of the worker ranks.",
      "The coordinator turns text into tokens, decides what runs in each step and streams the answers back to the clients."]),
    ("worker", "shard", [
        "What does a worker[ rank|] do?", "What is a worker rank?", "What are the workers for?", "Explain the worker ranks.",
        "What is the job of a worker?", "What does each rank hold?", "Which part of Ingot runs the layers?",
        "Who computes the model in Ingot?", "Describe a worker rank of Ingot."],
     ["A worker rank holds a shard of the weights and computes its part of every layer.",
      "Each worker rank is a process that MPI launched. It holds one shard of the weights and runs the layers.",
      "The worker ranks run the model. Each of them holds a shard of the weights and its own part of the KV cache."]),
    ("parts", "coordinator", [
        "What are the parts of Ingot?", "Which processes does Ingot have?", "How is Ingot built?", "How does Ingot work?",
        "What does an Ingot cluster consist of?", "Describe the [structure|architecture] of Ingot.", "Explain how Ingot works.",
        "What runs in an Ingot cluster?", "What is inside Ingot?"],
     ["Ingot has a coordinator, which tokenizes and schedules, and worker ranks, which each hold a shard of the weights.",
      "There is one coordinator and a group of worker ranks. The coordinator plans the steps, and the ranks compute them together.",
      "A coordinator takes the requests and plans the work. Worker ranks, launched by MPI, hold the weights and run the layers."]),
    ("tensor_parallel", "rank", [
        "What is tensor parallelism?", "What does tensor parallel mean?", "Explain tensor parallelism.",
        "How does Ingot split a model?", "How are the weights divided?", "What is meant by tensor-parallel serving?",
        "How do several ranks share one model?", "How can one model run on several devices?", "Tell me about tensor parallelism."],
     ["Tensor parallelism means that the weights of every layer are cut into shards. Each rank computes with its shard, and the results are added.",
      "Every layer is split over the ranks. Each rank computes its part, and an all-reduce adds the parts together.",
      "In tensor parallelism all ranks work on the same layer at the same time, each rank with its own part of the weights."]),
    ("allreduce", "all-reduce", [
        "What is an all-reduce?", "What is the all-reduce for?", "When does Ingot use an all-reduce?", "Where does the all-reduce happen?",
        "How are the partial results added?", "How many all-reduces does a layer need?", "Explain the all-reduce.",
        "When do the ranks talk to each other?", "What happens after attention?", "What happens after the feed-forward block?"],
     ["An all-reduce adds the partial results of all ranks. Ingot does one after attention and one after the feed-forward block.",
      "The all-reduce sums what the ranks computed, so that each rank has the full result. It comes after attention and after feed-forward.",
      "In every layer there are two: an all-reduce after attention and an all-reduce after the feed-forward block."]),
    ("nccl", "NCCL", [
        "What is NCCL [used |]for?", "Does Ingot use NCCL?", "How do CUDA ranks talk to each other?", "How do GPU ranks exchange data?",
        "What connects the CUDA ranks?", "Which library is used between GPUs?", "What does NCCL do in Ingot?"],
     ["NCCL does the all-reduce between CUDA ranks.", "Ingot uses NCCL between CUDA ranks, for the all-reduce.",
      "Between CUDA ranks the all-reduce goes through NCCL."]),
    ("cpu_ranks", "shared memory", [
        "How do CPU ranks talk to each other?", "How do CPU ranks exchange data?", "What is shared memory used for?",
        "What connects the CPU ranks?", "How do ranks on one machine add their results?", "Does Ingot use shared memory?"],
     ["CPU ranks add their results through shared memory or MPI.", "Between CPU ranks Ingot uses shared memory or MPI.",
      "CPU ranks on one machine use shared memory. They can also use MPI."]),
    ("mpi", "MPI", [
        "What is MPI [used |]for?", "Does Ingot use MPI?", "How are the worker ranks launched?", "How are the workers started?",
        "What launches the ranks?", "Why does Ingot need MPI?", "What does MPI do in Ingot?"],
     ["MPI launches the worker ranks.", "The worker ranks are launched by MPI, and the steps are sent to all ranks over MPI.",
      "Ingot uses MPI to launch the worker ranks[ and to send each step to all of them|]."]),
    ("kv", "KV cache", [
        "What is the KV cache?", "Where is the KV cache?", "Where does Ingot keep the KV cache?", "Explain the KV cache.",
        "What is a KV cache for?", "Which rank holds the KV cache?", "Why is there a KV cache?", "Is the KV cache on the device?"],
     ["The KV cache keeps the keys and values of earlier tokens. Each rank keeps its part on its own device.",
      "Each rank keeps its part of the KV cache on its own device. It saves the work of computing earlier tokens again.",
      "The KV cache holds the keys and values of the tokens so far, so that they need not be computed again. It stays on the device of each rank."]),
    ("api", "protobuf", [
        "What is the API of Ingot?", "Which protocol does Ingot speak?", "How does a client talk to Ingot?", "How do I send a request?",
        "What does the API use?", "How do programs connect to Ingot?", "Is there an API?", "Which messages does Ingot understand?",
        "Does Ingot use ZeroMQ?", "What is ZeroMQ used for?", "What is protobuf used for?"],
     ["Clients speak to Ingot over ZeroMQ, with protobuf messages.", "The API is ZeroMQ with protobuf messages.",
      "Requests are protobuf messages that arrive over ZeroMQ. Answers are streamed back in the same way."]),
    ("endpoint", "tcp://127.0.0.1:5555", [
        "What is the default endpoint?", "Where does Ingot listen?", "Which port does Ingot use?", "What address do I connect to?",
        "Which endpoint does Ingot listen on?", "What is the default port of Ingot?", "Where can a client reach Ingot?",
        "On which address does the server wait?"],
     ["The default endpoint is tcp://127.0.0.1:5555.", "By default Ingot listens on tcp://127.0.0.1:5555.",
      "Clients connect to tcp://127.0.0.1:5555 by default."]),
    ("promises", "replayed", [
        "What does Ingot promise?", "What are the [three |]promises of Ingot?", "What is special about Ingot?",
        "Why should I use Ingot?", "What can I rely on with Ingot?", "Name the three promises.", "What makes Ingot different?",
        "Which promises does Ingot make?", "What is Ingot good at?"],
     ["Ingot makes three promises: the same bytes, kill any rank and the stream goes on, and every answer can be replayed.",
      "There are three promises. The same request gives the same bytes. Any rank may be killed and the stream goes on. Every answer can be replayed.",
      "The same bytes every time, streams that go on when a rank is killed, and answers that can be replayed."]),
    ("same_bytes", "same bytes", [
        "What does the same bytes mean?", "Is the output of Ingot repeatable?", "Does the number of ranks change the answer?",
        "Does the batch change my answer?", "Will I get the same answer twice?", "What is the first promise?",
        "Is Ingot deterministic?", "Explain the promise of the same bytes."],
     ["The same request gives the same bytes, alone or in a batch.",
      "It means that the same request with the same seed gives the same bytes, on 1, 2, 4 or 8 ranks.",
      "The same request gives the same bytes, whatever else runs in the batch and on 1, 2, 4 or 8 ranks."]),
    ("kill", "stream", [
        "What happens when a rank dies?", "What happens if a worker crashes?", "Can I kill a rank?", "What if a rank is killed?",
        "What is the second promise?", "Does a crash of a worker lose my answer?", "How does Ingot survive a crash?",
        "What if a process dies in the middle of an answer?"],
     ["You can kill any rank and the stream goes on. The coordinator knows the prompt and all tokens so far, so the work is done again.",
      "The group is started again and the stream goes on where it was, with the same bytes.",
      "The stream goes on. The coordinator holds the prompt and the tokens so far, and the ranks compute the rest again."]),
    ("replay", "replayed", [
        "What does replay mean?", "Can an answer be replayed?", "What is the third promise?", "How can I repeat an old answer?",
        "Can I find out how an answer was made?", "Explain the replay of answers.", "Is it possible to replay a request?"],
     ["Every answer can be replayed. The inputs and the decisions of the scheduler are written to a journal.",
      "Inputs and scheduling decisions go into a journal, so every answer can be replayed[ step by step|] later."]),
    ("commands", "ingot serve", [
        "Which commands does Ingot have?", "What commands are there?", "List the commands of Ingot.", "What can I type?",
        "How do I use Ingot from the terminal?", "Name the commands of Ingot.", "Which subcommands does ingot know?"],
     ["The main commands are ingot serve, ingot run, ingot chat, ingot generate, ingot bench and ingot status.",
      "There are ingot serve, ingot run, ingot chat, ingot generate, ingot bench and ingot status[, among others|]."]),
    ("cmd_serve", "ingot serve", [
        "How do I start Ingot?", "How do I start a cluster?", "What does ingot serve do?", "Which command starts the server?",
        "How can I serve a model?", "How do I run a model with two ranks?", "How do I launch Ingot?"],
     ["Use ingot serve with the folder of a model. With --tp 2 it starts two ranks.",
      "The command ingot serve MODEL --tp 2 starts the coordinator and two worker ranks.",
      "Type ingot serve MODEL. It starts the coordinator and the worker ranks and watches over them."]),
    ("cmd_run", "ingot run", [
        "What does ingot run do?", "What is ingot run for?", "How do I try one prompt?", "Which command runs a single prompt?"],
     ["The command ingot run takes a model and a prompt and prints the answer.",
      "With ingot run MODEL --prompt you get one answer from a model."]),
    ("cmd_chat", "ingot chat", [
        "How do I chat with a model?", "What does ingot chat do?", "What is ingot chat for?", "Which command opens a chat?",
        "How can I talk to the model in the terminal?"],
     ["Use ingot chat to talk to a model in the terminal.", "The command ingot chat opens a conversation with the model."]),
    ("cmd_generate", "ingot generate", [
        "What does ingot generate do?", "How do I send a request from the terminal?", "What is ingot generate for?",
        "Which command sends a prompt to a running cluster?", "How do I send a prompt to the server?"],
     ["The command ingot generate sends a prompt to a running cluster and prints the answer.",
      "With ingot generate you send a request to a running cluster. The answer is streamed to the terminal."]),
    ("cmd_bench", "ingot bench", [
        "How do I measure the speed?", "What does ingot bench do?", "What is ingot bench for?", "How fast is my cluster?",
        "Which command measures the speed of Ingot?", "How can I test the speed of a cluster?"],
     ["Use ingot bench. It sends many requests at once and reports tokens per second and delays.",
      "The command ingot bench measures the speed of a running cluster under load."]),
    ("cmd_status", "ingot status", [
        "How do I see the state of the cluster?", "What does ingot status do?", "What is ingot status for?",
        "Which command shows the state of Ingot?", "How can I check on a running cluster?"],
     ["Use ingot status. It shows the state of a running cluster.", "The command ingot status tells you how the cluster is doing."]),
    ("batching", "batch", [
        "What is continuous batching?", "Can Ingot serve many requests at once?", "How does Ingot handle many users?",
        "Explain continuous batching.", "Does a new request wait for the others?", "What is a batch?"],
     ["New requests join the running batch at the next step, and finished ones leave it. This is called continuous batching.",
      "Ingot puts many requests into one batch. A new request can join the batch at any step."]),
    ("prefill", "prompt", [
        "What is prefill?", "What does prefill mean?", "What is the difference between prefill and decode?", "What is decode?",
        "How is a prompt processed?", "How are long prompts handled?", "Explain prefill and decode."],
     ["Prefill computes all tokens of the prompt. After that, decode makes one new token in each step.",
      "In prefill the model reads the prompt. In decode it writes the answer, one token in each step.",
      "The prompt is read first; this is prefill. A long prompt is cut into chunks, so that other requests do not wait."]),
    ("prefix", "prefix cache", [
        "What is the prefix cache?", "What happens with a prompt that was seen before?", "Explain the prefix cache.",
        "Does Ingot remember the beginning of a prompt?", "What is a prefix cache good for?"],
     ["The prefix cache keeps the KV blocks of earlier prompts. A prompt with the same beginning need not be computed again.",
      "When two prompts begin with the same tokens, the prefix cache saves the work for the second one."]),
    ("token", "token", [
        "What is a token?", "What are tokens?", "Explain what a token is.", "What does tokenize mean?", "Does the model read words or tokens?"],
     ["A token is a piece of text, often a word or a part of a word. Models read and write tokens.",
      "Tokens are the small pieces of text that a model reads and writes. A short word is often one token."]),
    ("stream", "token", [
        "What does streaming mean?", "Does Ingot stream its answers?", "When do I see the first word?", "How does the answer arrive?",
        "Must I wait for the whole answer?"],
     ["The answer is streamed: each token is sent as soon as it is there.", "Ingot sends every token as soon as it is computed, so you need not wait for the whole answer."]),
    ("models", "Llama", [
        "Which models can Ingot serve?", "What models does Ingot support?", "Can Ingot run Llama?", "Does Ingot support Qwen?",
        "Can I serve Mistral with Ingot?", "Which model families work?"],
     ["Ingot serves dense decoders such as Llama, Mistral, Qwen2 and Qwen3.", "It can serve Llama, Mistral, Qwen2 and Qwen3 models."]),
    ("weights", "safetensors", [
        "What is a shard?", "Which file format does Ingot read?", "Where do the weights come from?", "How are the weights stored?",
        "What are safetensors?", "How does a rank load its weights?"],
     ["The weights are read from safetensors files. Each rank loads only its own shard.",
      "A shard is the part of the weights that one rank holds. Ingot cuts it out of the safetensors files of the model."]),
    ("gpu", "CPU", [
        "Do I need a GPU?", "Does Ingot run without a GPU?", "Can I run Ingot on a laptop?", "Does Ingot work on a CPU?",
        "Is a graphics card needed?"],
     ["Ingot also runs on CPU ranks, without a GPU.", "You do not need a GPU. The worker ranks can run on a CPU."]),
    ("python", "Python", [
        "Does Ingot need Python?", "Do I need Python to run Ingot?", "Is there Python in Ingot?", "Is Python needed at run time?"],
     ["No, Ingot does not need Python at run time.", "Ingot is written in C. Python is not needed at run time."]),
    ("platform", "Linux", [
        "Does Ingot run on Linux?", "Does Ingot run on macOS?", "Which systems does Ingot run on?", "What operating system do I need?"],
     ["Ingot runs on Linux and macOS.", "It is made for Linux and macOS."]),
    ("temperature", "temperature", [
        "What is the temperature?", "What does temperature do?", "What is greedy decoding?", "How is the next token chosen?",
        "Explain the temperature."],
     ["The temperature says how freely the next token is chosen. At temperature 0 the best token always wins.",
      "With temperature 0 the model takes the most likely token. A higher temperature gives more varied answers."]),
    ("name", "metal", [
        "What does the word ingot mean?", "What is an ingot?", "Why is it called Ingot?", "Where does the name Ingot come from?"],
     ["An ingot is a block of metal.", "The word ingot means a block of metal that was cast into a simple shape."]),
    ("self", "demo model", [
        "Who are you?", "What are you?", "Are you a large language model?", "How big are you?", "What model are you?", "Are you human?",
        "Introduce yourself.", "Tell me about yourself.", "What is your name?", "How many weights do you have?", "Who am I talking to?"],
     ["I am the demo model of Ingot, a small language model with about two million weights.",
      "I am a very small language model, the demo model of Ingot. I have about two million weights[, so please be patient with me|].",
      "I am Ingot's demo model. I am small: about two million weights."]),
    ("skills", "stories", [
        "What can you do?", "What are you good at?", "How can you help me?", "What should I ask you?", "What do you know?", "Help!",
        "What can I ask?", "Give me an idea what to ask.", "Which questions can you answer?", "What are your skills?"],
     ["I can tell short stories, answer questions about Ingot, do small sums and turn text into JSON.",
      "Ask me for a short story, a small sum, a fact about Ingot or a text as JSON.",
      "I tell short stories, I know a little about Ingot, I can add small numbers, and I can extract data to JSON."]),
    ("training", "corpus", [
        "How were you trained?", "What is your training data?", "Where did you learn this?", "On what text were you trained?",
        "Who wrote your training text?"],
     ["I was trained on a small corpus that a script wrote: stories, facts about Ingot, sums and JSON.",
      "A script wrote a corpus of short stories, questions about Ingot, sums and JSON, and I learned from that."]),
    ("limits", "small", [
        "Do you make mistakes?", "Can I trust your answers?", "Are you always right?", "What are your limits?", "What can you not do?",
        "Are you as good as a big model?"],
     ["I am a small model and I make mistakes. I know little about the world.", "I am very small and often wrong. Please check what I say."]),
]
OVERVIEW = ["Tell me [all|everything] you know about Ingot.", "Give me an overview of Ingot.", "Explain Ingot in a few sentences.",
            "Write a paragraph about Ingot.", "Tell me some facts about Ingot.", "I am new here. What should I know about Ingot?",
            "Describe Ingot in some detail.", "What should I know about Ingot?"]
OVERVIEW_FACTS = ["what", "parts", "allreduce", "kv", "api", "promises", "licence", "endpoint", "nccl", "cpu_ranks", "cmd_serve"]

OUTSIDE = ["What is the capital of {x}?", "Who wrote {x}?", "What is the weather [like |]in {x}?", "Who is the president of {x}?",
           "How many people live in {x}?", "When was {x} founded?", "What is the price of {x}?", "Tell me about {x}.",
           "Translate {x} into French.", "Who won the game against {x}?", "How do I cook {x}?", "What do you think about {x}?",
           "Explain the history of {x}.", "How far away is {x}?", "Is {x} dangerous?", "Give me news about {x}.",
           "What is {x}?", "Where can I buy {x}?", "Why is {x} so famous?", "Can you explain {x} to me?", "Write a poem about {x}.",
           "Recommend a book about {x}.", "What happened to {x}?", "How does {x} work?", "Why do people like {x}?", "Write a program for {x}.", "How old is {x}?"]
TOPICS = """France Germany Japan Brazil Kenya Norway London Paris Berlin Rome Madrid Oslo Tokyo Cairo Lima Vienna
Shakespeare Faust Hamlet football tennis chess gold coffee tea rice pasta tomatoes bread physics chemistry biology
music Mozart Bach jazz Mars Venus Jupiter""".split() + [
    "quantum mechanics", "the moon", "the sun", "the Roman Empire", "electric cars", "a black hole", "the stock market",
    "my computer", "the human heart", "world politics", "the French Revolution", "a good film", "the Pacific Ocean",
    "the sky", "a rainbow", "the weather", "Napoleon", "Einstein", "Picasso", "the Beatles", "America", "China", "Paris in spring"]
UNKNOWN = ["[I am sorry, but |Sorry, |]I do not know that. I am a small demo model[ and know little about the world|].",
           "I do not know. I can tell stories, answer questions about Ingot, do small sums and write JSON.",
           "That is beyond me. I am only a small demo model: ask me about Ingot, for a story or for a small sum.",
           "I can not answer that. My training text was about Ingot, stories, sums and JSON."]


def fact_pair(draw, fact):
    """-> (question, answer) for one fact."""
    return draw.ask(fact[2]), draw.fill(draw.one(fact[3]))


def explain(draw):
    """-> (question, answer): one fact, two facts, an overview, or a question that is outside."""
    p = draw.rng.random()
    if p < 0.72:
        return fact_pair(draw, draw.one(FACTS))
    if p < 0.82:
        first, second = draw.some(FACTS, 2)
        draw.hold("combination", first[0] + "+" + second[0], 10)
        q1, a1 = fact_pair(draw, first)
        q2, a2 = fact_pair(draw, second)
        return draw.one([q1 + " " + q2, q1 + " And " + q2[0].lower() + q2[1:]]), a1 + " " + a2
    if p < 0.90:
        chosen = set(draw.some(OVERVIEW_FACTS, draw.rng.randrange(2, 5))) | {"what"}
        answers = [draw.fill(draw.one(f[3])) for f in FACTS if f[0] in chosen]
        return draw.ask(OVERVIEW), " ".join(answers)
    topic = draw.one(TOPICS)
    template = draw.one(OUTSIDE)
    draw.hold("combination", template + topic, 10)
    return upper_first(draw.fill(template, x=topic)), draw.fill(draw.one(UNKNOWN))
