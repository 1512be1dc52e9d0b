"""Forms of the answer over HTTP: response_format, structured_outputs, guided_*, Ollama's format, Responses' text.format;
the same source gives the same text everywhere."""
import json
import pathlib
import re
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
