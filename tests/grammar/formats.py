"""Formats of strings as jsonschema checks them, and those that it checks only beside other packages."""
import datetime
import re

import jsonschema

FORMATS = jsonschema.FormatChecker(formats=list(jsonschema.Draft202012Validator.FORMAT_CHECKER.checkers))


@FORMATS.checks("time", ValueError)
def is_time(value):
    """RFC 3339 without leap seconds."""
    if not isinstance(value, str):
        return True
    return re.match(r"\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$", value, re.I) is not None and bool(
        datetime.time.fromisoformat(re.sub(r"\.\d+", "", value.upper())).tzinfo)
