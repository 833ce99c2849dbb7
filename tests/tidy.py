"""Checks the house rules that no compiler checks. Usage: tidy.py SOURCE_ROOT | tidy.py --self-test"""
import pathlib
import re
import sys
import tempfile

SIM = ["sim/cost", "sim/devices", "sim/world"]
SIMULATION = ["core", "core/files", "sched", "run/record", "run/files", "traces", *SIM, "config", "config/models", "run"]
EXECUTION = ["kernels", "exec", "run/real"]
LAYERS = {  # folder -> folders whose headers it may include; a folder without an entry belongs to its parent
    "core": [], "core/files": ["core"], "sched": ["core"], "run/record": ["core", "sched"],
    "run/files": ["core", "core/files", "sched", "run/record"],
    "config/models": ["core", "core/files"], "traces": ["core", "core/files"], "kernels": ["core", "core/files"],
    "sim/cost": ["core", "sched", "sim/devices"], "sim/devices": ["core", "sched", "sim/cost"],
    "sim/world": ["core", "sched", "sim/cost"],
    "exec": ["core", "core/files", "config/models", "sched", "kernels"],
    "config": [layer for layer in SIMULATION if not layer.startswith("run") and layer != "config"],
    "run": SIMULATION, "run/real": SIMULATION + EXECUTION,
    "apps": SIMULATION + EXECUTION,
    "apps/serve/text": ["core", "core/files"],
    "apps/serve/service": SIMULATION + EXECUTION,
    "apps/serve": SIMULATION + EXECUTION + ["apps", "apps/serve/text", "apps/serve/service"],
    "apps/python": SIMULATION + EXECUTION + ["apps", "apps/study", "apps/recommend", "apps/predict"],
    # One verb never includes another.
    **{f"apps/{verb}": SIMULATION + ["apps"]
       for verb in ("bounds", "predict", "recommend", "report", "schedule", "study", "trace")},
    **{f"apps/{verb}": SIMULATION + EXECUTION + ["apps"]
       for verb in ("doctor", "generate", "profile", "run", "validate")},
}
PURE = ("core", "sched", "run/record")
IMPURE = re.compile(
    r"#include\s*<(random|thread|mutex|atomic|fstream|filesystem|future|condition_variable|ctime)>"
    r"|#include.*cuda|\bgetenv\b|\b(steady|system|high_resolution)_clock\b|\bs?rand\(|\btime\(nullptr")
CODE = {".h", ".cc", ".cu", ".cuh"}
TEXT = CODE | {".txt", ".cmake", ".md", ".py", ".json", ".proto", ".textproto", ".sh"}
LINE_MAX, FUNCTION_MAX, HEADER_MAX, SOURCE_MAX = 100, 70, 300, 600
# Headers of the tree that a source reaches by its includes: all that its reader may have to know.
REACHED_MAX = {"run/simulation.cc": 105}
INCLUDED = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
HAS_PROTOBUF = re.compile(r"(^|/)(config|run/files)/")
MACHINE_PATH = re.compile(r"(?<![\w.}])/(work|tmp|home|root|mnt|scratch)/\w")
BARE_NOTE = re.compile(r"\b(TODO(?!\(#\d+\))|FIXME|XXX)\b")
# The subject comes first: the thing or a verb, with the noun that the word stands for.
SUBJECTLESS = re.compile(r"//+ *(Of|What|The same|Those|Others|Whom)\b")
# The two forms of a model are core's: other layers ask the functions of core/layer_groups.h.
FORM_OF_MODEL = re.compile(r"\b(?:m|model|shape|spec|model_spec)\.groups\b|\bwindowed_layers\b")
VAGUE_TYPE = re.compile(r"\b(?:class|struct)\s+(\w*(?:Manager|Helper|Utils?|Data|Info))\b")
VAGUE_FILES = {"util", "utils", "helper", "helpers", "misc", "common"}
# A server's or a policy's name in a literal is a question that its own source answers. Words of
# other tables that read alike:
NAMED_ELSEWHERE = {
    "apps/predict/collective_import.cc": "implementations of collectives, in a column of tables",
    "apps/predict/operation_predictor.cc": "libraries of kernels, in a column of tables",
    "apps/run/run_command.cc": "a file format of --export",
    "apps/serve/protocol/parse_openai.cc": "a model's name, as clients of TGI send it",
    "sim/devices/kv_capacity.cc": "rules of memory",
    "sim/devices/operations/experts_model.cc": "kernels of experts, in names of tables",
}
NAMED_ELSEWHERE_MAX = 6
LITERAL = re.compile(r"""//[^\n]*|"((?:\\.|[^"\\\n])*)"|(?<!\w)'(?:\\.|[^'\\\n])+'""")
NO_FUNCTION = re.compile(r"^\s*(namespace|class|struct|enum|union|extern\s)\b")


def layer_of(path):
    """The layer of a file, given relative to the root; its top folder if it has none."""
    folders = [folder.as_posix() for folder in pathlib.PurePosixPath(path).parents]
    return next((folder for folder in folders if folder in LAYERS), (["."] + folders)[-2])


def without_text(line):
    """The line with the content of literals and its line comment taken out."""
    line = re.sub(r'"(\\.|[^"\\])*"', '""', line)
    line = re.sub(r"(?<!\w)'(\\.|[^'\\])'", "' '", line)
    return line.split("//")[0]


def long_functions(lines):
    """(line, length) of every function body over the limit, found by its braces."""
    depth, start, head, raw = 0, None, "", False
    for number, line in enumerate(lines, 1):
        if raw or 'R"' in line:
            raw = ')"' not in line.split('R"')[-1] if 'R"' in line else ')"' not in line
            continue
        code = without_text(line)
        head += code + " "
        opens = code.count("{") - code.count("}")
        transparent = NO_FUNCTION.match(head.strip()) is not None
        if start is None and code.count("{") and not transparent and "(" in head:
            start, depth = number, 0
        if start is not None:
            depth += opens
            if depth <= 0:
                if number - start + 1 > FUNCTION_MAX:
                    yield start, number - start + 1
                start = None
        if re.search(r"[;{}]\s*$", code) or not code.strip() or code.startswith("#"):
            head = ""


def check_code(path, layer, lines):
    """(line, complaint) for one C++ or CUDA file."""
    limit = HEADER_MAX if path.suffix in (".h", ".cuh") else SOURCE_MAX
    if len(lines) > limit:
        yield len(lines), f"file has {len(lines)} lines, allowed are {limit}"
    if path.suffix == ".h":
        if not lines or not re.match(r"// \S", lines[0]):
            yield 1, "header does not start with a line on its purpose"
        if "#pragma once" not in lines:
            yield 1, "header lacks #pragma once"
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_MAX:
            yield number, f"line has {len(line)} columns, allowed are {LINE_MAX}"
        included = re.match(r'#include "([^"]+/[^"]+)"', line)
        target = layer_of(included.group(1)) if included else None
        if layer in LAYERS and target in [*LAYERS, "tests"] and target not in [layer, *LAYERS[layer]]:
            yield number, f"{layer} must not include {target}"
        if layer in PURE and IMPURE.search(without_text(line) if "#inc" not in line else line):
            yield number, f"{layer} is pure: no clock, thread, lock, file, environment, CUDA"
        if re.search(r'#include.*\.pb\.h"', line) and not HAS_PROTOBUF.search(path.as_posix()):
            yield number, "generated protobuf headers stay in config and run/files"
        if layer not in ("core", "tests") and FORM_OF_MODEL.search(without_text(line)):
            yield number, "core/layer_groups.h says which layers a model has"
        subjectless = layer != "tests" and SUBJECTLESS.search(line)
        if subjectless:
            yield number, f"a comment begins with '{subjectless.group(1)}': name the subject first"
        vague = VAGUE_TYPE.search(without_text(line))
        if vague:
            yield number, f"type name '{vague.group(1)}' says nothing"
    for number, length in long_functions(lines):
        yield number, f"function has {length} lines, allowed are {FUNCTION_MAX}"


def local_statements(text):
    """Declarations at the top level of anonymous namespaces, without bodies."""
    text = "\n".join(without_text(line) for line in text.splitlines())
    for opened in re.finditer(r"^namespace \{$", text, re.MULTILINE):
        depth, statement = 0, ""
        for char in text[opened.end():]:
            if char == "}" and depth == 0:
                break
            depth += {"{": 1, "}": -1}.get(char, 0)
            if (char == "{" and depth == 1) or (char == ";" and depth == 0):
                yield " ".join(statement.split())
                statement = ""
            elif depth == 0 and char != "}":
                statement += char


def local_name(statement):
    """What a declaration defines; a function's name with its parameters' types; None for aliases."""
    found = re.search(r"\b(?:struct|class|enum) (?:class )?(\w+)[^(]*$", statement)
    if found or not statement or statement.startswith(("using", "namespace")):
        return found and found.group(1)
    found = re.search(r"(?<![\w:])([A-Za-z_]\w*)\((.*)\)", statement)
    if found and "=" not in statement.split("(", 1)[0]:
        types = re.sub(r"\w+(?=\s*(,|$))|\s", "", found.group(2))
        return f"{found.group(1)}({types})"
    if re.search(r"::~?\w+\(", statement.split(" = ")[0]):
        return None  # a member, defined after its class
    found = re.search(r"([A-Za-z_]\w*)(?:\[.*\])? ?(?:=|$)", statement)
    return found and found.group(1)


def repeated_local_names(root):
    """Names that two sources of a layer define: TWIN_UNITY compiles them together."""
    # Layers without a CMakeLists.txt are built by the one of their parent.
    for layer in {name if (root / name / "CMakeLists.txt").is_file() or "/" not in name
                  else name.rpartition("/")[0] for name in LAYERS}:
        listing = root / layer / "CMakeLists.txt"
        text = listing.read_text(encoding="utf-8") if listing.is_file() else ""
        alone = re.search(r"\bALONE\s([^)]*)", text)
        alone = alone.group(1).split() if alone else []
        owner, aliases = {}, {}
        for path in sorted((root / layer).rglob("*.cc")):
            inner = str(path.relative_to(root / layer))
            owning = layer_of(path.relative_to(root).as_posix())
            if owning != layer and (root / owning / "CMakeLists.txt").is_file():
                continue
            if inner in alone or "cuda" in path.parts or "no_cuda" in path.parts:
                continue
            for statement in local_statements(path.read_text(encoding="utf-8")):
                name = local_name(statement)
                alias = re.match(r"using (\w+) = (.*)", statement)
                # Aliases of the same type may repeat.
                if alias and aliases.setdefault(alias.group(1), alias.group(2)) != alias.group(2):
                    yield f"{layer}/{inner}: '{alias.group(1)}' is another type in a source before: rename it"
                if name and owner.setdefault(name, inner) != inner:
                    yield (f"{layer}/{inner}: '{name}' is also defined in {layer}/{owner[name]}: rename "
                           f"it, or list this source behind ALONE in {layer}/CMakeLists.txt")


def repeated_types(root):
    """Types of equal names in one namespace: the linker keeps one definition of the two in silence."""
    owner = {}
    for path in sorted(root.rglob("*.h")):
        inner = path.relative_to(root).as_posix()
        if layer_of(inner) not in LAYERS:
            continue
        namespace = ""
        for line in path.read_text(encoding="utf-8").splitlines():
            opened = re.match(r"namespace ([\w:]+) \{", line)
            if opened or line.startswith("}  // namespace"):
                namespace = opened.group(1) if opened else ""
            defined = re.match(r"(?:struct|class|enum class) (\w+)(?: final)?(?: : .*)? \{", line)
            name = defined and f"{namespace}::{defined.group(1)}"
            if name and owner.setdefault(name, inner) != inner:
                yield f"{inner}: '{name}' is also defined in {owner[name]}: rename it"


def headers_beyond_limit(root):
    """Sources of REACHED_MAX that reach more headers than allowed."""
    for source, most in REACHED_MAX.items():
        reached, left = set(), [source]
        while left:
            path = root / left.pop()
            found = INCLUDED.findall(path.read_text(encoding="utf-8")) if path.is_file() else []
            new = {name for name in found if (root / name).is_file()} - reached
            reached |= new
            left += new
        if len(reached) > most:
            yield f"{source}: reaches {len(reached)} headers, allowed are {most}: cut an include, or declare"


def matches(root, files, pattern):
    """What `pattern` finds in files of the tree, in lower case."""
    return {name.lower() for path in root.glob(files) for name in re.findall(pattern, path.read_text(encoding="utf-8"))}


def named_elsewhere(root):
    """Literals outside its folder that are the name of a policy or of a server, with or without a version."""
    names = matches(root, "sched/policy/*.h", r'kName = "(\w+)"')
    names |= matches(root, "config/servers/*.cc", r'\.(?:family|title) = "([^"]+)"')
    name = re.compile(f"(?:{'|'.join(map(re.escape, names))})(?: v?[0-9]\\S*)?", re.IGNORECASE)
    for path in sorted(path for path in root.rglob("*") if path.suffix in CODE):
        inner = path.relative_to(root).as_posix()
        if layer_of(inner) not in LAYERS or inner.startswith(("sched/policy/", "config/servers/")):
            continue
        text = re.sub(r'"\s*\n\s*"', "", path.read_text(encoding="utf-8"))  # one literal in two lines
        found = sorted({literal[1] for literal in LITERAL.finditer(text) if literal[1] and name.fullmatch(literal[1])})
        if found and inner not in NAMED_ELSEWHERE:
            yield f"{inner}: '{found[0]}' names a server or policy: ask its source (config/servers, sched/policy)"
        if not found and inner in NAMED_ELSEWHERE:
            yield f"{inner}: names no server or policy any more: take it off NAMED_ELSEWHERE"
    if len(NAMED_ELSEWHERE) > NAMED_ELSEWHERE_MAX:
        yield f"tests/tidy.py: NAMED_ELSEWHERE has {len(NAMED_ELSEWHERE)} files, allowed are {NAMED_ELSEWHERE_MAX}"


def check_tree(root):
    """All complaints about the tree, as file:line: text."""
    found = []
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        parts = relative.parts
        if parts[0].startswith((".", "build")) or not path.is_file() or path.is_symlink():
            continue
        if parts[0] in ("runs", "results", "shared", "third_party") or "__pycache__" in parts:
            continue
        if path.suffix not in TEXT and path.name != "CMakeLists.txt":
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        complaints = list(check_code(path, layer_of(relative.as_posix()), lines)) if path.suffix in CODE else []
        if path.stem in VAGUE_FILES:
            complaints.append((1, f"file name '{path.name}' says nothing"))
        for number, line in enumerate(lines, 1):
            if MACHINE_PATH.search(line):
                complaints.append((number, "a path of one machine"))
            # Encoded curves of profiles hold any three letters.
            encoded = tuple(parts[:3]) == ("sim", "devices", "profiles") and path.suffix == ".textproto"
            if BARE_NOTE.search(line) and path.name != "tidy.py" and not encoded:
                complaints.append((number, "a note to do something, without its issue"))
        found += [f"{relative}:{number}: {text}" for number, text in complaints]
    return found + [*repeated_local_names(root), *repeated_types(root), *headers_beyond_limit(root),
                    *named_elsewhere(root)]


def self_test():
    """Plants one violation of each rule; each must be found, and nothing else."""
    head = "// The purpose.\n#pragma once\n"
    planted = {
        "core/a.h": (head + '#include "sched/engine.h"\n', "core must not include sched"),
        "sim/world/a.cc": ('#include "tests/support/a.h"\n', "sim/world must not include tests"),
        "sched/a.cc": ("#include <mutex>\n", "sched is pure"),
        "run/record/a.cc": ("auto t = std::chrono::steady_clock::now();\n", "record is pure"),
        "apps/study/a.cc": ('#include "apps/report/page.h"\n', "apps/study must not include apps/report"),
        "run/a.cc": ('#include "run/real/a.h"\n', "run must not include run/real"),
        "config/a.cc": ('#include "run/deployment.h"\n', "config must not include run"),
        "apps/a.cc": ('#include "run/files/record.pb.h"\n', "stay in config"),
        "core/b.h": ("#pragma once\n", "purpose"),
        "core/c.h": ("// The purpose.\n", "lacks #pragma once"),
        "core/d.cc": ("// " + "x" * 98 + "\n", "columns"),
        "core/e.cc": ("void F() {\n" + "  G();\n" * 69 + "}\n", "function has 71 lines"),
        "core/f.h": (head + "\n" * 300, "file has 302 lines"),
        "core/g.cc": ("\n" * 601, "file has 601 lines"),
        "core/h.cc": ("// TO" + "DO: later\n", "without its issue"),
        "sim/cost/a.cc": ("bool Same() { return model.groups.empty(); }\n", "which layers a model has"),
        "core/p.cc": ("bool Equal() { return model.groups.empty(); }\n", None),
        "core/l.cc": ("// Of a request.\n", "begins with 'Of'"),
        "core/i.cc": ("class BlockManager {};\n", "'BlockManager' says nothing"),
        "core/utils.cc": ("\n", "'utils.cc' says nothing"),
        "core/j.cc": ("namespace {\nint Same(int a) { return a; }\n}\n", None),
        "core/k.cc": ("namespace {\nint Same(int b) { return -b; }\nint Same() { return 0; }\n}\n",
                      "'Same(int)' is also defined in core/j.cc"),
        "core/n.cc": ("namespace {\nint First::F() const { return 0; }\n}\n", None),
        "core/o.cc": ("namespace {\nint Second::G() const { return 0; }\n}\n", None),
        "core/m.h": (head + "namespace twin {\nstruct Twice {\n};\n}  // namespace twin\n", None),
        "sched/m.h": (head + "namespace twin {\nclass Twice final {\n};\n}  // namespace twin\n",
                      "'twin::Twice' is also defined in core/m.h"),
        "sched/n.h": (head + "namespace twin::run {\nstruct Twice {\n};\n}  // namespace twin::run\n", None),
        "sched/policy/p.h": (head + 'constexpr const char* kName = "fast_first";\n', None),
        "config/servers/s.cc": ('const Server kS = {.family = "swift",\n .title = "Swift-LM"};\n', None),
        "run/named.cc": ('bool F() { return name == "fast_first"; }\n', "'fast_first' names a server or policy"),
        "run/version.cc": ('const char* kDefault = "Swift-LM 0.3";\n', "'Swift-LM 0.3' names a server or policy"),
        "sim/devices/kv_capacity.cc": ('// not "swift"\n', "take it off NAMED_ELSEWHERE"),
        "run/says.cc": ('// "swift"\nconst char* kText =\n    "allowed: fast_first, "\n    "swift";\n', None),
        "docs/a.md": ("see /wo" + "rk/x\n", "a path of one machine"),
        "core/ok.h": (head + '#include "core/ids.h"\n// TO' + "DO(#12): later, not a rand(om) thing\n"
                      "class A {\n  void F() {\n" + "    G();\n" * 60 + "  }\n};\n", None),
    }
    # One header more than allowed: the last one is included by another header.
    most = REACHED_MAX["run/simulation.cc"]
    planted["run/simulation.cc"] = ("".join(f'#include "run/h{i}.h"\n' for i in range(most)),
                                    f"reaches {most + 1} headers")
    planted |= {f"run/h{i}.h": (head + f'#include "run/h{min(i + 1, most)}.h"\n', None)
                for i in range(most + 1)}
    with tempfile.TemporaryDirectory() as folder:
        for name, (text, _) in planted.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        found = check_tree(pathlib.Path(folder))
    expected = [name for name, (_, complaint) in planted.items() if complaint]
    missed = [name for name in expected
              if not any(f.startswith(name + ":") and planted[name][1] in f for f in found)]
    return [f"not found: {name}" for name in missed] + (found if len(found) != len(expected) else [])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    problems = self_test() if sys.argv[1] == "--self-test" else check_tree(pathlib.Path(sys.argv[1]))
    print("\n".join(problems))
    sys.exit(1 if problems else 0)
