# SPDX-License-Identifier: Apache-2.0
"""Usage: typelib-walk.py FILE.gir...

Walks the introspected interface and refuses what Python and JavaScript cannot use safely:

- an argument of a virtual method, callback or signal that is no GObject, number, enumeration, string, GStrv or GVariant (a
  boxed argument is freed by gjs when the call returns, while the script may keep it);
- arrays with a length, in-out arguments, and GValue in virtual methods, callbacks and signals;
- a virtual method that gives a string, an array, an object or a boxed that it keeps: a script keeps nothing for C;
- a function that gives a GPtrArray with its elements: its free function and the script would both free them;
- an interface with properties, or with virtual methods that a script can see (scripts derive from the base class);
- a stored callback that is not followed by its user data and a destroy notify.
"""

import sys
import unittest
import xml.etree.ElementTree as ElementTree

CORE = "{http://www.gtk.org/introspection/core/1.0}"
C = "{http://www.gtk.org/introspection/c/1.0}"
GLIB = "{http://www.gtk.org/introspection/glib/1.0}"

SCALARS = {
    "gboolean", "gchar", "guchar", "gshort", "gushort", "gint", "guint", "glong", "gulong", "gint8", "guint8", "gint16",
    "guint16", "gint32", "guint32", "gint64", "guint64", "gsize", "gssize", "gfloat", "gdouble", "GType", "none", "GLib.Quark",
}
PLAIN = SCALARS | {"utf8", "filename", "GLib.Variant"}
# Classes of other namespaces that our virtual methods may take.
FOREIGN_CLASSES = {"GObject.Object", "Gio.Cancellable"}


def is_visible(element):
    return element.get("introspectable", "1") != "0"


class Walk:
    """The problems of one namespace."""

    def __init__(self, namespace):
        self.namespace = namespace
        self.objects, self.numbers, self.callbacks = set(FOREIGN_CLASSES), set(), {"GObject.Callback"}
        for element in namespace:
            name = element.get("name")
            if element.tag in (CORE + "class", CORE + "interface", CORE + "enumeration", CORE + "bitfield"):
                self.objects.add(name)
            if element.tag in (CORE + "enumeration", CORE + "bitfield"):
                self.numbers.add(name)
            elif element.tag == CORE + "callback":
                self.callbacks.add(name)
        self.problems = []
        self.walk()

    def walk(self):
        for element in self.namespace:
            if not is_visible(element):
                continue
            if element.tag == CORE + "interface":
                self.check_interface(element)
            if element.tag == CORE + "callback":
                self.check_called_back(element, element.get("name"))
            if element.tag == CORE + "class":
                for method in element.findall(CORE + "virtual-method") + element.findall(GLIB + "signal"):
                    if is_visible(method):
                        self.check_called_back(method, f"{element.get('name')}.{method.get('name')}")
            for kind in ("function", "method", "constructor"):
                for function in [element] if element.tag == CORE + kind else element.findall(CORE + kind):
                    if is_visible(function):
                        self.check_function(function, function.get(C + "identifier"))

    def check_interface(self, interface):
        for prop in interface.findall(CORE + "property"):
            self.problems.append(f"{interface.get('name')}: an interface has no properties, found '{prop.get('name')}'")
        for method in interface.findall(CORE + "virtual-method"):
            if is_visible(method):
                self.problems.append(f"{interface.get('name')}.{method.get('name')}: a slot of an interface is (skip)")

    def check_called_back(self, callable_, where):
        for parameter in callable_.findall(f"{CORE}parameters/{CORE}parameter"):
            self.check_argument(parameter, f"{where}: argument '{parameter.get('name')}'")
        self.check_given(callable_.find(CORE + "return-value"), f"{where}: the returned value")

    def check_given(self, carrier, where):
        """What a script gives to C: a result, or an argument that goes out."""
        self.check_array(carrier, where)
        kind = carrier.find(CORE + "type")
        name = kind.get("name") if kind is not None else "array"
        if name == "GObject.Value":
            self.problems.append(f"{where} is a GObject.Value")
        elif name not in SCALARS and name not in self.numbers and carrier.get("transfer-ownership") != "full":
            self.problems.append(f"{where} is a {name} that the script keeps")

    def check_argument(self, parameter, where):
        if parameter.get("direction") == "inout":
            self.problems.append(f"{where} goes in and out")
        if parameter.get("direction") == "out":
            self.check_given(parameter, where)
            return
        self.check_array(parameter, where)
        kind = parameter.find(CORE + "type")
        if kind is None:
            return
        name = kind.get("name")
        is_user_data = name == "gpointer" and (parameter.get("closure") is not None or parameter.get("name").endswith("data"))
        if name not in PLAIN and name not in self.objects and not is_user_data:
            self.problems.append(f"{where} is a {name}: only GObject, numbers, enumerations, strings, GStrv and GVariant")

    def check_array(self, carrier, where):
        array = carrier.find(CORE + "array")
        if array is None:
            return
        is_strv = array.get("zero-terminated", "1") == "1" and array.find(CORE + "type").get("name") in ("utf8", "filename")
        if array.get("length") is not None or not is_strv:
            self.problems.append(f"{where} is an array with a length; only a GStrv may be one")

    def check_function(self, function, where):
        returned = function.find(CORE + "return-value")
        array = returned.find(CORE + "array")
        if array is not None and array.get("name") == "GLib.PtrArray" and returned.get("transfer-ownership") == "full":
            self.problems.append(f"{where}: gives a GPtrArray with its elements, so they would be freed twice")
        parameters = function.findall(f"{CORE}parameters/{CORE}parameter")
        for position, parameter in enumerate(parameters):
            if parameter.get("direction") == "inout":
                self.problems.append(f"{where}: argument '{parameter.get('name')}' goes in and out")
            kind = parameter.find(CORE + "type")
            if kind is None or kind.get("name") not in self.callbacks or parameter.get("scope") == "call":
                continue
            following = [next_.find(CORE + "type").get("name") for next_ in parameters[position + 1:]
                         if next_.find(CORE + "type") is not None][:2]
            if following != ["gpointer", "GLib.DestroyNotify"]:
                self.problems.append(f"{where}: '{parameter.get('name')}' is kept, so user data and a destroy notify follow it")


def problems_of(text):
    return [problem for namespace in ElementTree.fromstring(text).findall(CORE + "namespace")
            for problem in Walk(namespace).problems]


# What the walk must refuse: a fragment, and a part of the problem. None: it must pass.
VIRTUAL = '<class name="Base"><virtual-method name="run"><return-value transfer-ownership="{0}"><type name="{1}"/></return-value>' \
          "<parameters>{2}</parameters></virtual-method></class>"
FUNCTION = '<function name="f" c:identifier="f"><return-value><type name="none"/></return-value><parameters>{0}</parameters></function>' \
           '<callback name="Func"><return-value><type name="none"/></return-value></callback>'
CASES = [
    (VIRTUAL.format("none", "none", '<parameter name="a"><type name="Tensor"/></parameter>'), "is a Tensor"),
    (VIRTUAL.format("none", "none", '<parameter name="a"><type name="GObject.Value"/></parameter>'), "is a GObject.Value"),
    (VIRTUAL.format("none", "none", '<parameter name="a"><array length="1"><type name="gint"/></array></parameter>'), "array"),
    (VIRTUAL.format("none", "none", '<parameter name="a" direction="inout"><type name="gint"/></parameter>'), "in and out"),
    (VIRTUAL.format("none", "none", '<parameter name="a"><type name="GLib.Bytes"/></parameter>'), "is a GLib.Bytes"),
    (VIRTUAL.format("none", "utf8", ""), "utf8 that the script keeps"),
    (VIRTUAL.format("full", "utf8", ""), None),
    (VIRTUAL.format("none", "Base", ""), "Base that the script keeps"),
    (VIRTUAL.format("none", "Tensor", ""), "Tensor that the script keeps"),
    (VIRTUAL.format("full", "GObject.Value", ""), "is a GObject.Value"),
    (VIRTUAL.format("none", "gint", ""), None),
    (VIRTUAL.format("none", "Flag", "") + '<bitfield name="Flag"/>', None),
    (VIRTUAL.format("none", "none", '<parameter name="a" direction="out" transfer-ownership="none"><type name="utf8"/></parameter>'),
     "utf8 that the script keeps"),
    (VIRTUAL.format("none", "none", '<parameter name="a" direction="out" transfer-ownership="full"><type name="utf8"/></parameter>'), None),
    (VIRTUAL.replace("virtual-method", "glib:signal").format("none", "none", '<parameter name="a"><type name="Tensor"/></parameter>'),
     "is a Tensor"),
    ('<function name="f" c:identifier="f"><return-value transfer-ownership="full"><array name="GLib.PtrArray"><type name="Tensor"/></array>'
     "</return-value></function>", "freed twice"),
    ('<function name="f" c:identifier="f"><return-value transfer-ownership="container"><array name="GLib.PtrArray"><type name="Tensor"/>'
     "</array></return-value></function>", None),
    (VIRTUAL.format("full", "Tensor", '<parameter name="a"><array><type name="utf8"/></array></parameter>'), None),
    (VIRTUAL.format("full", "none", '<parameter name="a"><type name="Base"/></parameter>'), None),
    ('<interface name="Op"><virtual-method name="run"/></interface>', "is (skip)"),
    ('<interface name="Op"><virtual-method name="run" introspectable="0"/></interface>', None),
    ('<interface name="Op"><property name="p"/></interface>', "no properties"),
    (FUNCTION.format('<parameter name="f" scope="notified"><type name="Func"/></parameter>'), "is kept"),
    (FUNCTION.format('<parameter name="f" scope="call"><type name="Func"/></parameter>'), None),
    (FUNCTION.format('<parameter name="f" scope="notified"><type name="Func"/></parameter><parameter name="d"><type name="gpointer"/>'
                     '</parameter><parameter name="n"><type name="GLib.DestroyNotify"/></parameter>'), None),
    ('<callback name="Func"><return-value><type name="none"/></return-value><parameters><parameter name="t"><type name="Tensor"/>'
     "</parameter></parameters></callback>", "is a Tensor"),
]


# So that no room is left out of the interface unnoticed.
ONE_OF_EACH_ROOM = (
    "weft_dtype_get_name", "weft_plugin_registry_lookup", "weft_tensor_slice", "weft_checkpoint_open", "weft_memory_sink_lookup",
    "weft_module_tree_load", "weft_conversion_ops_convert", "weft_mapping_load", "weft_load_plan_execute",
    "weft_revert_plan_execute", "weft_command_run", "weft_check_run",
)


class WalkTest(unittest.TestCase):
    files = []

    def test_the_walk_refuses(self):
        for fragment, expected in CASES:
            with self.subTest(fragment=fragment):
                problems = problems_of(f'<repository xmlns="{CORE[1:-1]}" xmlns:c="{C[1:-1]}" xmlns:glib="{GLIB[1:-1]}"><namespace name="N">{fragment}'
                                       "</namespace></repository>")
                self.assertEqual(len(problems), 0 if expected is None else 1, problems)
                self.assertIn(expected or "", "".join(problems))

    def test_our_namespaces_pass(self):
        walked = ""
        for path in self.files:
            with self.subTest(path=path), open(path, encoding="utf-8") as file:
                text = file.read()
                self.assertEqual(problems_of(text), [])
            walked += text
        for symbol in ONE_OF_EACH_ROOM:
            self.assertIn(f'c:identifier="{symbol}"', walked)


if __name__ == "__main__":
    WalkTest.files = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
