"""Stands in for packages that an original scheduler imports and does not need to decide.

install(names) makes `import NAME` succeed for packages that are not installed, and for parts of an
original that only compute. importlib.metadata finds a version of each. What is read from
such a module is an Absent: a value that can be called, subclassed, compared and annotated with, so
that class bodies and decorators of modules which only share an import run through.
"""
import dis
import importlib.abc
import importlib.machinery
import importlib.metadata
import sys
import types


def any_value():
    """What pydantic checks of a field of an absent type: nothing."""
    from pydantic_core import core_schema
    return core_schema.any_schema()


VERSION = "999"  # of every absent package: newer than what anyone asks for

# Values that a module checks at import, by the name under which they are read.
VALUES = {"triton.runtime.driver.active.get_current_target().backend": "cpu"}


def unpacked_by(frame):
    """How many values the present instruction of `frame` unpacks: 2 for `a, b = value`, else 0."""
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == frame.f_lasti:
            return instruction.arg if instruction.opname == "UNPACK_SEQUENCE" else 0
    return 0


class AbsentBase:
    """The base of a class whose base is an Absent."""

    def __class_getitem__(cls, item):
        return cls

    def __init_subclass__(cls, **_):
        pass

    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler):
        return any_value()


class Absent:
    """Any attribute of an absent package. As a decorator it returns what it decorates."""

    def __init__(self, name):
        self.__dict__["_name"] = name

    def __getattr__(self, attribute):
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        name = f"{self._name}.{attribute}"
        value = self.__dict__[attribute] = VALUES.get(name) or Absent(name)
        return value

    def __call__(self, *values, **named):
        if len(values) == 1 and not named and isinstance(values[0], (types.FunctionType, type)):
            return values[0]
        return Absent(f"{self._name}()")

    def __mro_entries__(self, bases):
        return () if AbsentBase in bases else (AbsentBase,)

    def __getitem__(self, item):
        return Absent(f"{self._name}[]")

    def __setitem__(self, item, value):
        pass

    def __or__(self, other):
        return object

    __ror__ = __or__

    def _itself(self, *_):
        return self

    __add__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _itself
    __floordiv__ = __rfloordiv__ = __mod__ = __pow__ = __neg__ = __and__ = __invert__ = _itself
    __enter__ = _itself

    def __radd__(self, other):
        return other if isinstance(other, str) else self

    def __exit__(self, *_):
        return False

    def _false(self, *_):
        return False

    __bool__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = _false
    __instancecheck__ = __subclasscheck__ = _false

    def _zero(self):
        return 0

    __int__ = __index__ = __len__ = _zero

    def __float__(self):
        return 0.0

    def __iter__(self):
        return iter(Absent(f"{self._name}[]") for _ in range(unpacked_by(sys._getframe(1))))

    def __hash__(self):
        return hash(self._name)

    def __eq__(self, other):
        return isinstance(other, Absent) and other._name == self._name

    def __str__(self):
        return self._name

    __repr__ = __str__

    def __get_pydantic_core_schema__(self, source, handler):
        return any_value()


class AbsentModule(types.ModuleType):
    __path__ = []

    def __getattr__(self, attribute):
        if attribute.startswith("__") and attribute != "__version__":
            raise AttributeError(attribute)
        value = VERSION if attribute == "__version__" else Absent(f"{self.__name__}.{attribute}")
        setattr(self, attribute, value)
        return value


class AbsentDistribution(importlib.metadata.Distribution):
    """What importlib.metadata finds of an absent package: its name and a late version."""

    def __init__(self, name):
        self.own = f"Metadata-Version: 2.1\nName: {name}\nVersion: {VERSION}\n"

    def read_text(self, filename):
        return self.own if filename == "METADATA" else None

    def locate_file(self, path):
        return path


class AbsentFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules `names` and all below them."""

    def __init__(self, names):
        self.names = set(names)

    def find_distributions(self, context=None):
        name = getattr(context, "name", None)
        return [AbsentDistribution(name)] if name and name.replace("-", "_") in self.names else []

    def find_spec(self, name, path=None, target=None):
        parts = name.split(".")
        if any(".".join(parts[:count + 1]) in self.names for count in range(len(parts))):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return AbsentModule(spec.name)

    def exec_module(self, module):
        pass


def install(names):
    """Stands in for the packages `names`, of which an installed one comes first, and for parts of
    packages (with a dot), which come before those installed."""
    sys.meta_path.append(AbsentFinder(name for name in names if "." not in name))
    sys.meta_path.insert(0, AbsentFinder(name for name in names if "." in name))
