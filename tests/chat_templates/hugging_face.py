"""The environment in which Hugging Face's transformers (5.23) render chat templates, with jinja2
itself: the reference that twin::text::Template is compared with."""
import datetime
import json

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2024, 7, 26, 9, 5, 3)  # as FixedTime() in render_templates.cc


class GenerationBlocks(jinja2.ext.Extension):
    """{% generation %}: its body in a scope of its own."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_body")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


class RaisedByTemplate(jinja2.TemplateError):
    """raise_exception() was called."""


def _raise_exception(message):
    raise RaisedByTemplate(message)


def _tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def environment():
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                         extensions=[GenerationBlocks, jinja2.ext.loopcontrols])
    made.filters["tojson"] = _tojson
    # Not in transformers, but in the servers that render DeepSeek's templates.
    made.filters["from_json"] = json.loads
    made.globals["raise_exception"] = _raise_exception
    made.globals["strftime_now"] = NOW.strftime
    return made
