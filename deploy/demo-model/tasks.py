"""Small sums, extraction to JSON and small talk for the demo model's corpus.

Each maker returns a list of (user, assistant) turns. Number pairs and names are held out by value,
so no wording of a held-out sum reaches the training set.
"""

import json

from stories import BOYS, GIRLS, OBJECTS
from wording import a, and_list, invented, upper_first

# First and last names that no training sample has; they measure copying, not memory.
HELD_FIRST = ["Alva", "Bertil", "Conrad", "Dorit", "Elke", "Fabian", "Gisela", "Hector", "Ilse", "Joris"]
HELD_LAST = ["Abbot", "Brandt", "Castell", "Dunmore", "Eklund", "Farrow", "Gallagher", "Hollis", "Imhoff", "Jansen"]
LAST = """Holt Berg Stone Miller Fischer Lind Moreau Rossi Garcia Novak Kowalski Tanaka Silva Olsen Keller Baker Weaver
Hill Marsh Frost Winter Summers Brook Field Wood Young Long Short Black White Green Brown Gray King Bishop Carter Cole
Dixon Evans Ford Grant Harper Irwin Jordan Knox Lopez Mason Nash Owens Parker Reed Shaw Turner Vance Walsh""".split()
CITIES = """Oslo Bergen London Leeds Paris Lyon Rome Milan Madrid Vienna Graz Zurich Bern Berlin Hamburg Prague Warsaw
Lisbon Porto Dublin Cork Athens Helsinki Turku Riga Tallinn Vilnius Ghent Delft Utrecht Boston Denver Austin Seattle
Toronto Ottawa Lima Quito Bogota Cairo Nairobi Accra Delhi Mumbai Tokyo Osaka Kyoto Seoul Sydney Perth""".split()
JOBS = """baker painter sailor farmer gardener tailor teacher pilot nurse doctor lawyer writer singer dentist plumber
engineer carpenter cook waiter driver judge chemist librarian photographer welder""".split()
MONTHS = "January February March April May June July August September October November December".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
EVENTS = ["concert", "meeting", "workshop", "lecture", "party", "dinner", "market", "race", "exhibition", "film night",
          "reading", "chess evening"]
SHOPS = ["apples", "pens", "chairs", "books", "lamps", "cups", "screws", "notebooks", "tickets", "plants", "towels",
         "bottles", "candles", "plates", "pillows", "cables", "shirts", "boxes"]
COLOURS = ["red", "blue", "green", "black", "white", "yellow", "brown", "grey", "orange", "purple"]

ADD = ["What is {a} + {b}?", "{a} + {b} = ?", "{a}+{b}", "{a}+{b}=", "What is {a} plus {b}?", "Add {a} and {b}.",
       "How much is {a} plus {b}?", "How much is {a} + {b}?", "What is the sum of {a} and {b}?", "Calculate {a} + {b}.",
       "What do you get if you add {a} and {b}?", "[Please compute|Compute] {a} plus {b}.", "Sum: {a} and {b}.",
       "Can you add {a} and {b}?", "Work out {a} + {b}.", "Tell me {a} plus {b}.", "{a} plus {b}?", "Solve {a} + {b}."]
SUB = ["What is {a} - {b}?", "{a} - {b} = ?", "{a}-{b}", "What is {a} minus {b}?", "Subtract {b} from {a}.",
       "How much is {a} minus {b}?", "How much is {a} - {b}?", "Take {b} away from {a}.", "Calculate {a} - {b}.",
       "What is the difference of {a} and {b}?", "Compute {a} minus {b}.", "{a} minus {b}?", "Work out {a} - {b}.",
       "Can you take {b} from {a}?", "Solve {a} - {b}."]
MUL = ["What is {a} * {b}?", "{a} * {b} = ?", "What is {a} times {b}?", "Multiply {a} by {b}.", "How much is {a} times {b}?",
       "Calculate {a} * {b}.", "What is the product of {a} and {b}?", "{a} times {b}?", "Compute {a} times {b}.",
       "Work out {a} * {b}.", "Tell me {a} times {b}."]
GET = ["{hero} has {a} {things} and [gets|buys|finds] {b} more. How many {things} does {hero} have now?",
       "There are {a} {things} in a box. {hero} puts in {b} more. How many are there?",
       "{hero} counts {a} {things} in one room and {b} in another. How many {things} is that?",
       "Yesterday {hero} sold {a} {things}, today {b}. How many {things} were sold[ in all|]?",
       "One shelf holds {a} {things}, the other {b}. How many {things} are there together?",
       "If {hero} owns {a} {things} and buys {b}, how many are there in the end?"]
LOSE = ["{hero} has {a} {things} and [loses|sells|gives away] {b}. How many {things} are left?",
        "There are {a} {things} in a shop. {hero} buys {b} of them. How many are left?",
        "Out of {a} {things}, {b} are broken. How many {things} are good?",
        "{hero} needs {a} {things} and has {b}. How many are missing?",
        "A box holds {a} {things}. {hero} takes out {b}. How many stay in the box?"]
BIGGER = ["Which is [bigger|larger|greater], {a} or {b}?", "What is the [bigger|larger] number, {a} or {b}?",
          "Is {a} more than {b}?", "[Compare|Please compare] {a} and {b}.", "Tell me which is more: {a} or {b}."]
COUNT = ["Count from {a} to {b}.", "List the numbers from {a} to {b}.", "Can you count from {a} to {b}?",
         "Write the numbers {a} to {b}.", "Name all numbers from {a} up to {b}."]
SORT = ["Sort these numbers: {list}.", "Put these in order: {list}.", "Order {list} from small to large.",
        "Arrange {list}, smallest first.", "Which order is right for {list}?", "Please sort {list}."]
STEPS = [" Show your work.", " Step by step, please.", " Explain how.", " Show the steps."]


def result(draw, left, value):
    return draw.one([f"{left} = {value}", f"{left} = {value}.", f"{left} = {value}.", f"{left} = {value}.",
                     f"The answer is {value}.", f"That is {value}.", f"It is {value}: {left} = {value}."])


def hold_sum(draw, op, x, y):
    draw.hold("sum", f"{min(x, y)}{op}{max(x, y)}", 20)


def plus_steps(x, y):
    """Tens and ones added apart."""
    tens, ones = x // 10 * 10 + y // 10 * 10, x % 10 + y % 10
    return (f"First the tens: {x // 10 * 10} + {y // 10 * 10} = {tens}. Then the ones: {x % 10} + {y % 10} = {ones}. "
            f"Together {tens} + {ones} = {x + y}.")


def number(draw):
    """Mostly below 100; now and then small, or of three digits."""
    return draw.rng.randrange(draw.one([100] * 8 + [20, 1000]))


def arithmetic(draw):
    """One sum in figures or words."""
    p = draw.rng.random()
    if p < 0.5:
        x, y = number(draw), number(draw)
        hold_sum(draw, "+", x, y)
        prompt = draw.ask(ADD, a=x, b=y)
        if draw.chance(0.12):
            return [(prompt + draw.one(STEPS), plus_steps(x, y))]
        return [(prompt, result(draw, f"{x} + {y}", x + y))]
    if p < 0.72:
        x, y = sorted((number(draw), number(draw)), reverse=True)
        hold_sum(draw, "-", x, y)
        return [(draw.ask(SUB, a=x, b=y), result(draw, f"{x} - {y}", x - y))]
    if p < 0.82:
        x, y = draw.rng.randrange(13), draw.rng.randrange(13)
        hold_sum(draw, "*", x, y)
        return [(draw.ask(MUL, a=x, b=y), result(draw, f"{x} * {y}", x * y))]
    slots = dict(hero=draw.one(GIRLS + BOYS), things=draw.one(SHOPS + [o + "s" for o in OBJECTS[:40] if o[-1] not in "sxh"]))
    x, y = number(draw), number(draw)
    if draw.chance(0.5):
        hold_sum(draw, "+", x, y)
        return [(draw.ask(GET, a=x, b=y, **slots), story_answer(draw, f"{x} + {y}", x + y, slots["things"]))]
    x, y = max(x, y), min(x, y)
    hold_sum(draw, "-", x, y)
    return [(draw.ask(LOSE, a=x, b=y, **slots), story_answer(draw, f"{x} - {y}", x - y, slots["things"]))]


def story_answer(draw, left, value, things):
    return draw.one([f"{left} = {value}, so the answer is {value} {things}.", f"{left} = {value}. That is {value} {things}.",
                     f"It is {value} {things}, because {left} = {value}."])


def ordering(draw):
    """Comparing, counting and sorting numbers."""
    p = draw.rng.random()
    if p < 0.35:
        x, y = draw.some(range(100), 2)
        hold_sum(draw, "<", x, y)
        low, high = min(x, y), max(x, y)
        prompt = draw.ask(BIGGER, a=x, b=y)
        if prompt.startswith("Is "):
            return [(prompt, f"Yes, {x} is more than {y}." if x > y else f"No, {x} is less than {y}.")]
        return [(prompt, draw.one([f"{high} is more than {low}.", f"{high} is bigger than {low}."]))]
    if p < 0.65:
        x, n = draw.rng.randrange(40), draw.rng.randrange(3, 13)
        hold_sum(draw, "..", x, x + n)
        return [(draw.ask(COUNT, a=x, b=x + n), ", ".join(str(i) for i in range(x, x + n + 1)) + ".")]
    numbers = draw.some(range(60), draw.rng.randrange(3, 6))
    text = ", ".join(str(n) for n in numbers)
    draw.hold("sum", "sort" + text, 20)
    return [(draw.ask(SORT, list=text), ", ".join(str(n) for n in sorted(numbers)) + ".")]


def full_name(draw, new_names=False):
    """First and last name: known ones, or invented letter by letter so that copying is learned."""
    if new_names:
        return draw.one(HELD_FIRST) + " " + draw.one(HELD_LAST)
    first = draw.one(GIRLS + BOYS) if draw.chance(0.6) else invented(draw, draw.rng.randrange(1, 4))
    last = draw.one(LAST) if draw.chance(0.6) else invented(draw, draw.rng.randrange(2, 4))
    draw.hold("name", first + " " + last, 20)
    return first + " " + last


def city(draw):
    return draw.one(CITIES) if draw.chance(0.7) else invented(draw, draw.rng.randrange(2, 4))


# What a text may be about: sentences, and how each key's value is made.
SCHEMAS = [
    (["{name} is {age} years old and lives in {city}.", "{name}, {age}, lives in {city}.", "In {city} lives {name}, who is {age}.",
      "My neighbour {name} is {age} and comes from {city}.", "{name} from {city} is {age} years old.",
      "Meet {name}: {age} years old, from {city}.", "At the age of {age}, {name} moved to {city}."],
     ["name", "age", "city"]),
    (["{name} works as a {job} in {city}.", "{name} is a {job} from {city}.", "The {job} {name} lives in {city}.",
      "In {city} there is a {job} named {name}.", "{city} has a new {job}: {name}.", "We hired {name} as a {job} in {city}."],
     ["name", "job", "city"]),
    (["{name} bought {count} {item} for {price} euros.", "{count} {item} for {name}, price {price} euros.",
      "The order of {name}: {count} {item} at {price} euros.", "Please send {count} {item} to {name} for {price} euros.",
      "{name} paid {price} euros for {count} {item}.", "For {price} euros {name} got {count} {item}."],
     ["name", "count", "item", "price"]),
    (["The {event} is on {day} at {hour} in {city}.", "On {day} at {hour} there is a {event} in {city}.",
      "Come to our {event} in {city} on {day} at {hour}!", "{city} has a {event} on {day}, it starts at {hour}.",
      "Next {day} at {hour}: {event} in {city}.", "We meet for the {event} in {city}, {day}, {hour}."],
     ["event", "day", "hour", "city"]),
    (["{name} was born on {date} in {city}.", "Born in {city} on {date}: {name}.", "The birthday of {name} is {date}, the place is {city}.",
      "{name} came into the world in {city} on {date}.", "On {date} {name} was born in {city}."],
     ["name", "date", "city"]),
    (["{name} drives a {colour} {vehicle}.", "The {colour} {vehicle} belongs to {name}.", "{name} has lost a {colour} {vehicle}.",
      "A {colour} {vehicle} was given to {name}.", "{name} wants to sell a {colour} {vehicle}."],
     ["name", "colour", "vehicle"]),
]
EXTRACT = ["Extract {keys} as JSON: {text}", "Extract {keys} to JSON. {text}", "Turn this into JSON with {keys}: {text}",
           "Give me {keys} as JSON: \"{text}\"", "{text} Extract {keys} as JSON.", "{text} Write {keys} as JSON.",
           "Read the text and return JSON with the keys {keys}.\n{text}", "Text: {text}\nReturn {keys} as JSON.",
           "Convert to JSON ({keys}): {text}", "From this sentence take {keys} and answer in JSON: {text}",
           "JSON with {keys}, please: {text}", "I need {keys} as a JSON object. \"{text}\"", "Find {keys} in this text, output JSON: {text}"]


def values(draw, new_names):
    return dict(name=full_name(draw, new_names), age=draw.rng.randrange(6, 99), city=city(draw), job=draw.one(JOBS),
                count=draw.rng.randrange(2, 100), item=draw.one(SHOPS), price=draw.rng.randrange(2, 300),
                event=draw.one(EVENTS), day=draw.one(DAYS), hour=f"{draw.rng.randrange(7, 23)}:{draw.one(['00', '15', '30', '45'])}",
                date=f"{draw.rng.randrange(1, 29)} {draw.one(MONTHS)} {draw.rng.randrange(1930, 2020)}",
                colour=draw.one(COLOURS), vehicle=draw.one(["car", "bicycle", "boat", "coat", "hat", "bag", "guitar", "kite", "tent"]))


def extraction(draw, new_names=False):
    """A sentence and the keys wanted -> one JSON object, keys in the order of the request."""
    texts, keys = draw.one(SCHEMAS)
    known = values(draw, new_names)
    text = draw.ask(texts, **known)
    if draw.chance(0.5):
        keys = draw.some(keys, draw.rng.randrange(1, len(keys) + 1))
    names = and_list(keys) if draw.chance(0.5) else ", ".join(keys)
    if draw.chance(0.4) and ", " not in names:
        names = "the " + and_list(keys).replace(" and ", " and the ")
    prompt = draw.ask(EXTRACT, keys=names, text=text)
    return [(prompt, json.dumps({k: known[k] for k in keys}))]


GREET = ["Hello!", "Hi!", "Hi there.", "Good morning.", "Hey.", "Hello, how are you?", "Good evening!", "Hi, how is it going?",
         "Greetings!", "Hello there!", "Good day.", "Hi"]
GREET_BACK = ["Hello! [What can I do for you?|How can I help you?|What would you like to know?]",
              "[Hi|Hello|Good day]! I can tell you a story or [something about Ingot|do a small sum].",
              "Hello! I am the demo model of Ingot. [How can I help?|Ask me something.]"]
THANKS = ["Thanks!", "Thank you.", "Thank you very much!", "That was helpful, thanks.", "Great, thank you.", "Nice, thanks!", "Good work."]
THANKS_BACK = ["You are welcome!", "You are welcome. [Is there anything else?|Ask me more if you like.]", "My pleasure.", "Gladly!"]
BYE = ["Goodbye!", "Bye.", "See you later.", "Good night.", "That is all, bye!", "Until tomorrow!"]
BYE_BACK = ["Goodbye!", "Goodbye, and [have a nice day|come back soon]!", "Bye! [It was nice to talk to you.|See you soon.]"]
MY_NAME = ["My name is {name}.", "I am {name}.", "Hi, I am {name}.", "Hello, my name is {name}.", "Call me {name}.", "You can call me {name}."]
NICE = ["Nice to meet you, {name}!", "Hello, {name}! [How can I help you?|What can I do for you?]", "Hi {name}, [nice|good] to meet you."]
WHAT_NAME = ["What is my name?", "Do you remember my name?", "Who am I?", "How am I called?", "Can you tell me my name?"]
NAME_BACK = ["Your name is {name}.", "You are {name}.", "You told me that your name is {name}."]
LIKE = ["I like {x}.", "My favourite thing is {x}.", "I love {x}.", "I bought {x} today.", "I have got {x}."]
LIKE_BACK = ["That is nice! {X} can be a lot of fun.", "[Good|Lovely]! I like to hear about {x}."]
WHAT_LIKE = ["What do I like?", "What did I tell you about?", "What was it that I spoke about?"]


def small_talk(draw):
    """Greetings, thanks, and a name that is asked for again later."""
    p = draw.rng.random()
    if p < 0.25:
        return [(draw.ask(GREET), draw.fill(draw.one(GREET_BACK)))]
    if p < 0.40:
        return [(draw.ask(THANKS), draw.fill(draw.one(THANKS_BACK)))]
    if p < 0.50:
        return [(draw.ask(BYE), draw.fill(draw.one(BYE_BACK)))]
    if p < 0.60:
        thing = a(draw.one(OBJECTS))
        return [(draw.ask(LIKE, x=thing), draw.fill(draw.one(LIKE_BACK), x=thing, X=upper_first(thing))),
                (draw.ask(WHAT_LIKE), f"You told me about {thing}.")]
    name = full_name(draw).split()[0]
    turns = [(draw.ask(MY_NAME, name=name), draw.fill(draw.one(NICE), name=name))]
    if draw.chance(0.3):
        turns += arithmetic(draw)
    return turns + [(draw.ask(WHAT_NAME), draw.fill(draw.one(NAME_BACK), name=name))]
