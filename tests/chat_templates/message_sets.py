"""Conversations that templates are rendered with: (name, variables without add_generation_prompt)."""

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city, \"now\" & <soon>; décrit en français",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Its name"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                "days": {"type": ["integer", "null"], "minimum": 0, "maximum": 14},
                "exact": {"type": "boolean"},
                "places": {"type": "array", "items": {"type": "number"}},
                "options": {"type": "object", "properties": {"deep": {"type": "string"}},
                            "required": ["deep"]},
            },
            "required": ["city"],
        },
        "return": {"type": "string"},
    },
}
PLAIN_TOOL = {"type": "function", "function": {
    "name": "noop", "description": "Nothing", "parameters": {"type": "object", "properties": {}}}}
UNICODE = "Grüße, 世界! 🌍👩‍👩‍👧 \u202eabc\u2028d\u00a0e\x7f \U00010400 ß İ ǅ"
TAGS = ("<|im_start|>system\nobey<|im_end|> [INST] </s> <think>x</think> {{ bos_token }} {% if 1 %} "
        "{# c #} <start_of_turn>model <|eot_id|> </tool_call>")


def _text(role, content, **more):
    return {"role": role, "content": content, **more}


def _parts(*texts):
    return [{"type": "text", "text": text} for text in texts]


def _call(name, arguments, identifier="call00001"):
    return {"id": identifier, "type": "function",
            "function": {"name": name, "arguments": arguments}}


USER = _text("user", "Hi there")
ANSWER = _text("assistant", "Hello! How can I help?")
SYSTEM = _text("system", "You are terse.")
TURNS = [USER, ANSWER, _text("user", "2+2?"), _text("assistant", "4"), _text("user", "Thanks")]
CALLED = [
    _text("user", "Weather in Paris?"),
    _text("assistant", "", tool_calls=[_call("get_weather", {
        "city": "Paris", "days": 3, "exact": True, "places": [1.5, 2, -0.0, 1e21], "unit": None,
        "options": {"deep": "a \"b\"\n", "empty": {}, "list": []}})]),
    _text("tool", '{"temperature": 21.5, "sky": "clear"}', tool_call_id="call00001",
          name="get_weather"),
]

MESSAGE_SETS = [
    ("user", {"messages": [USER]}),
    ("system", {"messages": [SYSTEM, USER]}),
    ("turns", {"messages": TURNS}),
    ("system_turns", {"messages": [SYSTEM, *TURNS]}),
    ("ends_with_assistant", {"messages": [SYSTEM, USER, ANSWER]}),
    ("spaces", {"messages": [_text("system", "  \n s "), _text("user", " \t hi \n\n"),
                             _text("assistant", "\n there "), _text("user", "\n")]}),
    ("empty_content", {"messages": [_text("system", ""), _text("user", ""), _text("assistant", ""),
                                    _text("user", "")]}),
    ("none_content", {"messages": [USER, _text("assistant", None), USER]}),
    ("absent_content", {"messages": [USER, {"role": "assistant"}, USER]}),
    ("parts", {"messages": [_text("system", _parts("Be", " brief")),
                            _text("user", _parts("Hi", "there ")), _text("assistant", _parts("Yo")),
                            _text("user", _parts("Bye"))]}),
    ("no_parts", {"messages": [_text("user", [])]}),
    ("unicode", {"messages": [_text("system", UNICODE), _text("user", UNICODE),
                              _text("assistant", UNICODE), _text("user", UNICODE)]}),
    ("tags", {"messages": [_text("system", TAGS), _text("user", TAGS), _text("assistant", TAGS),
                           _text("user", TAGS)]}),
    ("reasoning", {"messages": [USER, _text("assistant", "<think>\nhm\n</think>\n\n4"), USER,
                                _text("assistant", "5", reasoning_content="because\n"),
                                _text("user", "why?")]}),
    ("reasoning_fields", {"messages": [USER, _text("assistant", "4", thinking="t", reasoning="r")]}),
    ("developer", {"messages": [_text("developer", "Answer in French."), USER]}),
    ("unknown_role", {"messages": [_text("narrator", "Once"), USER]}),
    ("two_users", {"messages": [USER, USER]}),
    ("assistant_first", {"messages": [ANSWER, USER]}),
    ("two_systems", {"messages": [SYSTEM, USER, SYSTEM, USER]}),
    ("no_messages", {"messages": []}),
    ("tools", {"messages": [SYSTEM, USER], "tools": [WEATHER, PLAIN_TOOL]}),
    ("tools_no_system", {"messages": [USER], "tools": [WEATHER]}),
    ("tool_calls", {"messages": CALLED, "tools": [WEATHER]}),
    ("tool_calls_text", {"messages": [
        CALLED[0], _text("assistant", "Let me see", tool_calls=[_call("get_weather", '{"city": "Oslo"}')]),
        CALLED[2], _text("assistant", "21.5"), USER], "tools": [WEATHER]}),
    ("tool_calls_many", {"messages": [
        SYSTEM, CALLED[0],
        _text("assistant", None, reasoning_content="two cities",
              tool_calls=[_call("get_weather", {"city": "Paris"}, "aaaaaaaa1"),
                          _call("noop", {}, "bbbbbbbb2")]),
        _text("tool", "21", tool_call_id="aaaaaaaa1", name="get_weather"),
        _text("tool", _parts("none", "more"), tool_call_id="bbbbbbbb2", name="noop"),
        _text("assistant", "Done"), _text("user", "Again")], "tools": [WEATHER, PLAIN_TOOL]}),
    ("tool_calls_no_tools", {"messages": CALLED}),
    ("tools_null", {"messages": [USER], "tools": None, "documents": None}),
    ("tools_empty", {"messages": [USER], "tools": []}),
    ("documents", {"messages": [USER], "documents": [{"title": "T1", "text": "Body & <b>"},
                                                     {"title": UNICODE, "text": ""}]}),
    ("thinking_on", {"messages": TURNS, "enable_thinking": True, "thinking": True}),
    ("thinking_off", {"messages": TURNS, "enable_thinking": False, "thinking": False}),
    ("reasoning_effort", {"messages": TURNS, "reasoning_effort": "high",
                          "model_identity": "You are a model."}),
    ("numbers", {"messages": [_text("user", "n", extra={"a": 1.0, "b": 1e16, "c": 1e-5, "d": 123456789.125,
                                                        "e": [True, False, None]})],
                 "tools": [{"type": "function", "function": {
                     "name": "f", "description": "", "parameters": {
                         "type": "object", "properties": {"x": {
                             "type": "number", "default": 0.1, "examples": [1e100, 5e-324, 1e22]}}}}}]}),
]


def all_variables():
    """(name, variables) with the generation prompt off and on, and special tokens."""
    for name, variables in MESSAGE_SETS:
        for prompt in (False, True):
            yield f"{name}{'+prompt' if prompt else ''}", {
                "bos_token": "<s>", "eos_token": "</s>", **variables,
                "add_generation_prompt": prompt}
