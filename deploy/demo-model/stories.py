"""Short stories for the demo model's corpus: plots made of beats, each beat with several wordings.

`tell` returns the request, the story and questions about it with their answers. What the request
names (hero, object, place, plot) is what the story is about.
"""

from wording import a, invented, upper_first

GIRLS = """Mira Lina Ada Rosa Nora Ella Ivy Tess Hana Zoe Maya Luna Clara Freya Ines Olga Wren Pia
Greta Juno Alma Bea Cora Dana Edda Fay Gwen Hedda Ida Jana Kira Lotte Mina Nell Opal Petra Runa Sara
Tilda Una Vera Willa Yara Zelda""".split()
BOYS = """Pip Tom Otto Finn Leo Max Hugo Theo Bruno Emil Jonas Oscar Felix Sam Ravi Kai Niko Rolf
Anton Gus Arlo Ben Carl Dario Erik Fritz Glen Henry Ivan Jack Karl Lars Milo Ned Odin Paul Quinn
Rory Stan Toby Ugo Viktor Wim Zeno""".split()
ANIMALS = """fox rabbit bear mouse owl hedgehog squirrel duck goat cat dog turtle otter badger frog
sparrow crow deer donkey pony lamb goose hen beaver mole bat raven penguin seal whale snail bee ant
spider lion tiger elephant monkey camel parrot wolf pig cow kangaroo koala panda zebra
giraffe hippo crocodile lizard swan robin crab octopus dolphin moose reindeer""".split()
PEOPLE = """baker painter sailor farmer gardener knight dragon wizard giant fisher clockmaker
blacksmith tailor miller shepherd teacher robot pirate musician librarian fairy elf astronaut
carpenter cook doctor postman king queen inventor juggler potter weaver scientist
beekeeper detective ghost mermaid troll soldier nurse pilot princess prince witch student""".split() + ["lighthouse keeper", "train driver", "night guard", "map maker"]
HEROES = ANIMALS + PEOPLE
TRAITS = """small brave shy curious kind clever lazy cheerful quiet proud patient hungry sleepy young
old gentle careful friendly lonely stubborn polite tiny clumsy honest busy""".split()
OBJECTS = """lantern key kite bell map boat drum book hat coin clock flute blanket mirror ring ball
basket umbrella candle violin feather compass button spoon wheel scarf teapot letter kettle
telescope bucket hammer whistle box paintbrush shoe necklace backpack pencil sled wagon bottle rope
chair pillow cup trumpet marble shell stone brush crown bicycle guitar lamp suitcase sword
rocket balloon computer star ladder apple""".split()
LOOKS = """old red blue golden silver green little broken shiny wooden strange beautiful tiny yellow
heavy dusty lovely round bright""".split()
PLACES = ["in a quiet village", "in a small house by the river", "in a tall tower", "in a lighthouse",
          "in a cottage in the forest", "in a town by the sea", "in a green valley", "in a busy city",
          "in a cave in the hills", "on a farm near the lake", "in an old mill", "on a windy island",
          "in a snowy mountain village", "in a little house under an oak", "in a harbour town",
          "in a castle on a hill", "in a hut at the edge of the desert", "in a sunny orchard",
          "in a garden behind the school", "in a wide meadow", "in a narrow street", "in a deep forest",
          "in a tent by the beach", "in a library full of dust", "on a small boat", "under a stone bridge"]
SPOTS = ["under the bed", "behind the old mill", "in the tall grass", "under a pile of leaves",
         "at the bottom of the well", "on top of the roof", "beside the river", "inside a hollow tree",
         "behind the door", "in the kitchen", "near the bridge", "under the stairs", "in the garden",
         "on the highest branch", "between two rocks", "in the barn"]
TIMES = ["One morning", "One day", "One evening", "One cold night", "One rainy day", "Early one morning",
         "One summer day", "One autumn evening", "On a windy day", "One Sunday", "Late one night",
         "On the first day of spring", "One winter morning"]
FOODS = ["apple", "loaf of bread", "jar of honey", "piece of cheese", "cake", "bowl of soup", "pear",
         "pie", "carrot", "bag of nuts", "pot of jam", "plum", "bun", "melon"]
SKILLS = ["swim", "play the flute", "bake bread", "read", "sing", "dance", "ride a bicycle", "paint",
          "sail a boat", "climb trees", "whistle", "skate", "juggle", "write letters", "cook soup",
          "play the drum", "fly a kite", "tell stories", "build a chair", "count the stars"]
FEARS = ["the dark", "deep water", "thunder", "high places", "loud noises", "the forest", "the wind",
         "strangers", "spiders", "the old bridge"]
CLOSINGS = [
    "[From that day on|Ever since], {hero} and {helper} were [good|the best of] friends.",
    "That night {hero} [slept very well|fell asleep with a smile].",
    "And {hero} never forgot that day.",
    "{hero} smiled all the way home.",
    "[The neighbours still talk about it|People still tell that story] today.",
    "And {he} [learned|knew now] that it is good to [have friends|ask for help|be kind|be patient].",
    "After that, {hero} was never [lonely|sad|afraid] again.",
    "Then they [drank tea|shared a warm meal|sat by the fire] and [laughed|talked] until it was late.",
    "And that was the best day of the whole year.",
]
# name: (what the request may say of it, {what a reader may ask: answer}, beats). A beat with a
# leading "?" may be left out.
PLOTS = {
    "lost": ("who lost {a_obj}", {"What [did {hero} lose|was lost]?": "{hero} lost the {obj}."}, [
        "{time}, {hero} could not find {his} {obj}.|{time}, {hero} saw that {his} {look} {obj} was gone.",
        "?{He} looked {spot}, but [it was not there|there was nothing]."
        "|{He} searched {spot} and {spot2}, but found nothing.",
        "?{hero} was very [sad|worried], because the {obj} [had been a gift|was {his} favourite thing].",
        "Then {a_friend} [called|named] {helper} came by and [said|asked], \"[Why are you so sad?|What is wrong?]\" "
        "{hero} told {helper} about the {obj}.",
        "[Together|Side by side] they looked [everywhere|all day], and [at last|in the end] they found it {spot3}."
        "|{helper} had a good idea and looked {spot3}. There was the {obj}!",
        "{hero} thanked {helper} and [never lost the {obj} again|took good care of the {obj} after that]."]),
    "found": ("who found {a_obj}", {"What did {hero} find?": "{hero} found {a_look_obj}."}, [
        "{time}, {hero} found {a_look_obj} {spot}.",
        "?It was so [beautiful|fine] that {he} [wanted to keep it|could not stop looking at it].",
        "But {hero} [thought|knew], \"[Someone must miss it|This is not mine].\" So {he} [asked|went to ask] "
        "[everyone in town|all the neighbours|one neighbour after another].",
        "[At last|In the end] {he} met {a_friend} [called|named] {helper}, who [cried|said], \"That is my {obj}! "
        "[I lost it last week|I looked for it everywhere].\"",
        "{hero} gave the {obj} back, and {helper} was so happy that {he2} [danced|laughed|sang].",
        "[As thanks|To say thank you], {helper} [invited {hero} to dinner|gave {hero} {a_food}]."]),
    "learn": ("who wanted to learn to {skill}", {"What did {hero} want to learn?": "{hero} wanted to learn to {skill}."}, [
        "{hero} had one wish: {he} wanted to learn to {skill}.|More than anything, {hero} wanted to {skill}.",
        "?{time}, {he} tried for the first time, but it [went wrong|did not go well at all].",
        "[Everyone laughed|Some people laughed], and {hero} [wanted to give up|almost gave up].",
        "Then {a_friend} [called|named] {helper} said, \"[Nobody is good at the start|Try again, a little every day]. "
        "I will help you.\"",
        "[Day after day|Every morning] they practised, and [slowly|bit by bit] it [got|became] better.",
        "[At last|In the end] {hero} could {skill} [very well|better than anyone in town], and {he} [was proud|thanked {helper}]."]),
    "share": ("who shared {a_food}", {"What did {hero} share?": "{hero} shared {a_food}."}, [
        "{time}, {hero} had only {a_food} left [to eat|for the whole day].",
        "On the [road|path] {he} met {a_friend} [called|named] {helper}, who [was very hungry|had eaten nothing all day].",
        "?{hero} [thought for a moment|looked at the food and then at {helper}].",
        "\"[Take half of it|Let us share],\" said {hero}, and they ate together.",
        "?[Some days|A week] later, {hero} [was lost in the fog|fell into a deep hole|could not cross the river].",
        "This time it was {helper} who [helped|came to help]. \"You were kind to me,\" said {helper}, "
        "\"[and I did not forget it|and now I can be kind to you].\""]),
    "fear": ("who was afraid of {fear}", {"What was {hero} afraid of?": "{hero} was afraid of {fear}."}, [
        "{hero} was afraid of {fear}, and [everyone knew it|{he} told nobody].",
        "{time}, {he} heard a cry for help. It was {a_friend} [called|named] {helper}, who was stuck {spot}.",
        "?{hero} [was shaking|felt {his} heart beat fast]. \"I can not go there,\" {he} thought.",
        "But then {he} [took a deep breath|closed {his} eyes for a moment], took {his} {obj} and went.",
        "[Step by step|Slowly] {he} [came closer|went on], until {he} could [pull {helper} out|reach {helper}].",
        "\"You are [very brave|the bravest {kind} I know],\" said {helper}. And {fear} [was not so bad any more|"
        "never seemed so bad again]."]),
    "race": ("who was in a race", {"Who [was|ran] in the race with {hero}?": "{helper} was in the race with {hero}."}, [
        "{time}, there was a [great|big] race, and the prize was {a_look_obj}.",
        "{hero} wanted to win, but so did {helper}, {a_friend} who was [very fast|the fastest of all].",
        "?\"You are much too slow,\" [said|laughed] {helper}.",
        "[In the middle of|Halfway through] the race, {helper} [fell over a root|slipped in the mud|hurt a foot].",
        "{hero} could have [won|run on], but {he} stopped and helped {helper} up.",
        "They [reached the end|crossed the line] together, and [both of them|the two] shared the {obj}."]),
    "seed": ("who planted a seed", {"What did {hero} plant?": "{hero} planted a seed."}, [
        "{time}, {hero} planted a [tiny|small|strange] seed {spot}.",
        "?Every day {he} gave it water, but for [a long time|many weeks] nothing [happened|grew].",
        "\"[Be patient|Good things take time],\" said {helper}, {a_friend} who lived nearby.",
        "{hero} [waited|did not give up], and one morning there was a [green leaf|small green shoot].",
        "[Soon|By summer] it was a [great tree|tall plant] with [a hundred|many] sweet [fruits|red apples|golden pears].",
        "There was enough for everyone, and {hero} gave the first one to {helper}."]),
    "journey": ("who went on a journey", {"What did {hero} take along?": "{hero} took along {a_look_obj}."}, [
        "{hero} had always [wondered|dreamed about] what was [behind the mountains|on the other side of the sea].",
        "{time}, {he} [packed|took] {a_look_obj} and {a_food} and [set out|left home].",
        "?The road was long, and at night it was [cold|very dark].",
        "On the third day {he} met {helper}, {a_friend} who [knew the way|was going the same way].",
        "Together they [saw the wide sea|climbed the highest hill|crossed a river], and it was more beautiful than any "
        "[dream|picture].",
        "But [after a while|at last] {hero} [missed home|wanted to go home]. \"[Come with me|You can visit me],\" {he} said to {helper}."]),
    "machine": ("who built a machine", {"What did {hero} build?": "{hero} built a machine."}, [
        "{hero} [liked|loved] to build things. {time}, {he} began to build a machine from {a_obj} and {a_obj2}.",
        "It was meant to [make music|catch the rain|wake the whole town|carry heavy stones|sweep the floor].",
        "?But when {he} [turned it on|tried it], it only made a [sad noise|puff of smoke].",
        "{helper}, {a_friend} from next door, looked at it and said, \"[One small piece is missing|I think the {obj} is upside down].\"",
        "They [worked all night|tried again and again], and [in the morning|at last] the machine [began to work|started].",
        "[Everyone|The whole town] came to [see|admire] it, and {hero} said, \"I [could not have done|did not do] it alone.\""]),
    "gift": ("who made a gift for a friend", {"Who got the gift?": "The gift was for {helper}."}, [
        "[Soon it was|Tomorrow was] the birthday of {helper}, {a_friend}, and {hero} had no [gift|present] yet.",
        "{He} had no money, only {a_look_obj} and [some paper|a piece of string].",
        "?{He} thought about it [all day|for a long time].",
        "Then {he} [had an idea|knew what to do]: {he} [painted|cleaned] the {obj} until it [looked like new|shone].",
        "When {helper} opened the gift, {he2} [had tears in {his2} eyes|could not say a word for joy].",
        "\"It is the best gift of all,\" said {helper}, \"because you made it [for me|yourself].\""]),
    "baby": ("who found a lost {young}", {"What did {hero} find?": "{hero} found a lost {young}."}, [
        "{time}, {hero} heard a [small|soft] voice {spot}. It was a lost {young}.",
        "\"I can not find my [mother|family],\" said the {young} and [began to cry|looked very sad].",
        "?{hero} gave the {young} {a_food} and a warm [blanket|place by the fire].",
        "Then they walked [through the fields|along the river|from house to house] and asked everyone they met.",
        "{helper}, {a_friend} who [knew everyone|had good eyes], [said|called], \"I saw the family {spot2}!\"",
        "[Soon|At last] the {young} was home again, and [the mother|the whole family] thanked {hero} [and {helper}|many times]."]),
    "quarrel": ("who had a quarrel", {"What did they [quarrel|fight] about?": "They quarrelled about {a_obj}."}, [
        "{hero} and {helper}, {a_friend}, were good friends, but {time_low} they [quarrelled|had a quarrel] about {a_obj}.",
        "\"It is mine!\" [cried|shouted] {hero}. \"No, mine!\" [cried|shouted] {helper}.",
        "They both pulled, and the {obj} [broke in two|fell down and broke].",
        "?Then it was very quiet, and both of them were [sad|ashamed].",
        "\"I am sorry,\" said {hero} [at last|softly]. \"[Me too|So am I],\" said {helper}.",
        "They [mended|repaired] the {obj} together, and [from then on|after that] it belonged to both of them."]),
    "noise": ("who heard a strange noise", {"Where did the noise come from?": "The noise came from {helper}."}, [
        "{time}, {hero} heard a strange noise {spot}. [Tap, tap, tap!|Bang, bang!|Swish, swish!]",
        "{He} took {a_look_obj} and went to see what it was.",
        "?The noise grew louder, and {hero} [held {his} breath|walked on tiptoe].",
        "But it was only {helper}, {a_friend} who [was looking for a place to sleep|wanted to come in|was busy with {a_obj2}].",
        "\"You gave me a fright!\" [laughed|said] {hero}. \"I am so sorry,\" said {helper}.",
        "Then {hero} [made tea|opened the door], and the two [talked|sat together] until [morning|it was late]."]),
    "proud": ("who was too proud", {"Who helped {hero}?": "{helper} helped {hero}."}, [
        "{hero} was very proud of {his} {look} {obj} and showed it to everyone.",
        "\"Nobody has a {obj} like mine,\" {he} said every day, and [soon nobody wanted to listen|people began to go away].",
        "{time}, a strong wind [came and carried|took] the {obj} away.",
        "?{hero} [cried|called for help], but nobody came at first.",
        "Only {helper}, {a_friend}, [helped|came to help], and they found the {obj} {spot}.",
        "\"[A friend is worth more than {a_obj}|I talked too much],\" said {hero}, and {he} was never so proud again."]),
    "storm": ("who helped in a storm", {"What did {hero} use in the storm?": "{hero} used {a_look_obj}."}, [
        "{time}, a great storm came [over the hills|from the sea], and all the lights went out.",
        "{helper}, {a_friend}, was still [outside|on the way home] and could not see the way.",
        "?The rain was loud, and the wind [pulled at the roof|shook the trees].",
        "{hero} took {a_look_obj}, went out and [called|made as much noise as {he} could].",
        "{helper} [heard it|followed the sound] and came [safely|slowly] to the door.",
        "They [sat by the fire|dried their feet] and waited together until the [sun came back|storm was over]."]),
    "well": ("who found water", {"What did {hero} find?": "{hero} found water."}, [
        "It had not rained for [many weeks|a long time], and the well was dry.",
        "Everyone was [worried|thirsty], but nobody knew what to do.",
        "{hero} took {a_obj} and [walked|went] up the hill to look for water.",
        "?On the way {he} met {helper}, {a_friend}, who [laughed|said], \"There is no water here.\"",
        "But {hero} [saw green grass|heard a soft sound] between two stones and began to dig.",
        "[Suddenly|At last] clear, cold water came up, and [everyone cheered|the whole place had enough to drink]."]),
}
WITH_OBJECT = ["lost", "found", "fear", "race", "journey", "machine", "gift", "quarrel", "noise", "proud",
               "storm", "well"]
YOUNG = ["duckling", "lamb", "kitten", "puppy", "baby bird", "baby elephant", "foal", "little child",
         "baby seal", "young owl", "baby dragon", "piglet"]
OPENINGS = ["Once upon a time, there was {a_trait} {kind} [named|called] {hero}, who lived {place}.",
            "[Once, |Many years ago, |]{place} there lived {a_trait} {kind} [named|called] {hero}.",
            "{hero} was {a_trait} {kind} who lived {place}.",
            "Long ago, {place}, lived {hero}, {a_trait} {kind}.",
            "There was once {a_trait} {kind} [named|called] {hero}. {He} lived {place}.",
            "Far away, {place}, {a_trait} {kind} [named|called] {hero} had a [small room|little home].",
            "{a_trait} {kind} [named|called] {hero} lived {place}."]

ASK = ["[Tell|Write] me a[| short] story about {a_kind}.", "[Tell|Write] a[| short] story about {a_kind}.",
       "[Can|Could] you [tell|write] [me |]a[| short] story about {a_kind}?",
       "I [want|would like] [to hear|to read] a story about {a_kind}.", "Make up a story about {a_kind}.",
       "A story about {a_kind}, please.", "Please write a[ bedtime|] story about {a_kind}.",
       "I need a[| little] tale about {a_kind}.", "Give me a[| nice] story with {a_kind} in it."]
ASK_NAMED = ["Tell me a[| short] story about {a_kind} [named|called] {hero}.", "Write a story about {hero} the {kind}.",
             "[Can|Could] you tell me a story about {hero}, {a_trait} {kind}?",
             "Write a[| short] story about {a_trait} {kind} [named|called] {hero}.",
             "Tell [me |]the story of {hero} the {kind}.", "The hero is {a_kind} called {hero}. Tell me the story."]
ASK_OBJECT = ["Tell me a[| short] story about {a_kind} and {a_obj}.", "Write a[| short] story with {a_kind} and {a_obj}.",
              "[Can|Could] you write a story about {a_kind} with {a_obj}?", "Make up a tale about {a_obj} and {a_kind}.",
              "I would like a story about {a_kind} and {a_obj}.", "Invent a story in which {a_kind} has {a_obj}."]
ASK_PLACE = ["Tell me a story that [happens|is set] {place}.", "Write a[| short] story about {a_kind} {place}.",
             "[Can|Could] you tell a story about {a_kind} who lives {place}?", "A tale of {a_kind} {place}, please."]
ASK_PLOT = ["Tell me a[| short] story about {a_kind} {plot}.", "Write a[| short] story about {a_kind} {plot}.",
            "[Can|Could] you tell me about {a_kind} {plot}?", "I want to hear about {a_kind} {plot}.",
            "[Invent|Make up] a story about {a_trait} {kind} {plot}.", "Write about {hero}, {a_kind} {plot}."]
ASK_ANY = ["Tell me a[| short| bedtime| nice] story.", "[Can|Could] you tell me a[| short] story?", "I want to hear a story.",
           "Write a[| little| short] story [for me|for children].", "Do you know a[| good] story?", "Make up a story.",
           "A story, please.", "Entertain me with a [little |]story.", "Once more, a story please."]
TINY = ["Make it very short.", "Keep it very short.", "Only a few sentences, please.", "Be brief."]
LONG = ["Make it [a |]long[ one|].", "A long one, please.", "Take your time.", "It may be long.", "I want a long one."]
LATER = ["[Some weeks|A year|A month] later, {hero} had another adventure.", "But that is not the end of the story of {hero}.",
         "[In the next spring|When winter came], there was more to tell about {hero}.", "And then, [one year|some time] later, it began again."]
ASK_WHO = ["What is the name of the {kind}?", "Who is the story about?", "What was the {kind} called?", "Who is the hero?"]
ASK_WHERE = ["Where did {hero} live?", "Where does the story [happen|take place]?", "Where is {hero} from?"]
ASK_FRIEND = ["Who is {helper}?", "Who was {helper} in the story?", "And who is {helper}?"]


def cast(draw):
    """The slots of one story. The combination hero-object and hero-place may be held out."""
    she, she2 = draw.chance(0.5), draw.chance(0.5)
    hero, helper = draw.one(GIRLS if she else BOYS), draw.one(GIRLS if she2 else BOYS)
    if draw.chance(0.2):
        hero = invented(draw, draw.rng.randrange(2, 4))
    while helper == hero:
        helper = draw.one(GIRLS if she2 else BOYS)
    kind, friend = draw.some(HEROES, 2)
    obj, obj2 = draw.some(OBJECTS, 2)
    spot, spot2, spot3 = draw.some(SPOTS, 3)
    trait, look, time, food = draw.one(TRAITS), draw.one(LOOKS), draw.one(TIMES), draw.one(FOODS)
    place = draw.one(PLACES)
    draw.hold("combination", kind + "+" + obj, 20)
    draw.hold("combination", kind + "+" + place, 20)
    return dict(
        hero=hero, helper=helper, kind=kind, a_kind=a(kind), a_friend=a(friend), friend=friend, obj=obj,
        a_obj=a(obj), a_obj2=a(obj2), a_look_obj=a(look + " " + obj), look=look, place=place, spot=spot,
        spot2=spot2, spot3=spot3, trait=trait, a_trait=a(trait), time=time, food=food, a_food=a(food),
        time_low=time[0].lower() + time[1:], skill=draw.one(SKILLS), fear=draw.one(FEARS),
        young=draw.one(YOUNG), he="she" if she else "he", He="She" if she else "He",
        his="her" if she else "his", he2="she" if she2 else "he", his2="her" if she2 else "his")


def variant(draw, beat, slots):
    """One wording of a beat: wordings are separated by | outside of brackets."""
    options, depth, start = [], 0, 0
    for i, c in enumerate(beat):
        depth += (c == "[") - (c == "]")
        if c == "|" and depth == 0:
            options.append(beat[start:i])
            start = i + 1
    return draw.fill(draw.one(options + [beat[start:]]), **slots)


def request(draw, slots, plot_phrase):
    forms = [(ASK, 4), (ASK_NAMED, 3), (ASK_OBJECT, 3), (ASK_PLACE, 2), (ASK_PLOT, 4), (ASK_ANY, 2)]
    form = draw.one([f for f, n in forms for _ in range(n)])
    return form, draw.ask(form, plot=draw.fill(plot_phrase, **slots), **slots)


def tell_beats(draw, beats, slots, tiny):
    """The sentences of a story; a very short one leaves out all that may be left out."""
    lines = [draw.fill(draw.one(OPENINGS), **slots)]
    for beat in beats:
        if not beat.startswith("?") or (not tiny and draw.chance(0.7)):
            lines.append(variant(draw, beat.lstrip("?"), slots))
    if not tiny and draw.chance(0.6):
        closing = draw.one(CLOSINGS)
        if "{helper}" not in closing or any(slots["helper"] in line for line in lines):
            lines.append(draw.fill(closing, **slots))
    return [upper_first(line) for line in lines]


def follow_ups(draw, questions, slots, story):
    """Questions about the story with their answers, in random order."""
    asks = [(ASK_WHO, "[The name is {hero}|It is {hero}|The {kind} is called {hero}]."),
            (ASK_WHERE, "{hero} lived {place}.")]
    if slots["helper"] in story:
        asks.append((ASK_FRIEND, "{helper} is {a_friend}."))
    asks += [([q], answer) for q, answer in questions.items()]
    draw.rng.shuffle(asks)
    return [(draw.ask(q, **slots), draw.fill(answer, **slots)) for q, answer in asks]


def next_chapter(draw, slots):
    """A further plot for the same hero, with other friends and things. -> (its sentences, slots)"""
    fresh = cast(draw)
    while fresh["helper"] in (slots["hero"], slots["helper"]):
        fresh = cast(draw)
    for same in ("hero", "kind", "a_kind", "place", "trait", "a_trait", "he", "He", "his"):
        fresh[same] = slots[same]
    beats = PLOTS[draw.one(list(PLOTS))][2]
    return [draw.fill(draw.one(LATER), **fresh)] + tell_beats(draw, beats, fresh, False)[1:], fresh


def tell(draw):
    """-> (request, story, [(question about it, answer)])"""
    slots = cast(draw)
    phrase, questions, beats = PLOTS[draw.one(list(PLOTS))]
    form, prompt = request(draw, slots, phrase)
    if form is ASK_OBJECT:
        phrase, questions, beats = PLOTS[draw.one(WITH_OBJECT)]
    length = draw.one(["tiny"] * 3 + ["long"] * 2 + ["usual"] * 20)
    if length != "usual":
        prompt += " " + draw.ask(TINY if length == "tiny" else LONG)
    lines = tell_beats(draw, beats, slots, length == "tiny")
    story = " ".join(lines)
    if length == "usual" and draw.chance(0.15):
        cut = draw.rng.randrange(1, len(lines) - 1)
        story = " ".join(lines[:cut]) + "\n\n" + " ".join(lines[cut:])
    follow = follow_ups(draw, questions, slots, story)
    for _ in range(draw.rng.randrange(1, 3) if length == "long" else 0):
        lines, slots = next_chapter(draw, slots)
        story += "\n\n" + " ".join(lines)
    return prompt, story, follow
