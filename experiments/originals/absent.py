"""Stands in for packages that an original scheduler imports and does not need to decide.

install(names) makes `import NAME` succeed for packages that are not installed. What is read from
such a module is an Absent: a value that can be called, subclassed, compared and annotated with, so
that class bodies and decorators of modules which only share an import run through.
"""
import importlib.abc
import importlib.machinery
import sys
import types


def any_value():
    """What pydantic checks of a field of an absent type: nothing."""
    from pydantic_core import core_schema
    return core_schema.any_schema()


# Values that a module checks at import, by the name under which they are read.
VALUES = {"triton.runtime.driver.active.get_current_target().backend": "cpu"}


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
        return iter(())

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
        value = "999" if attribute == "__version__" else Absent(f"{self.__name__}.{attribute}")
        setattr(self, attribute, value)
        return value


class AbsentFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names):
        self.names = set(names)

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return AbsentModule(spec.name)

    def exec_module(self, module):
        pass


def install(names):
    """Stands in for the packages `names`. An installed package of that name comes first."""
    sys.meta_path.append(AbsentFinder(names))
