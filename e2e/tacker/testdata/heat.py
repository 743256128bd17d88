"""What Heat has of one stack, as far as Tacker's APIs differ in it. e2e/stacks has a real Heat."""


class Refused(Exception):
    """What Heat answers to a request that it refuses."""


class Heat:
    """A stack: its template, the files that the template names, its parameters. images are Glance's, names by ids."""

    def __init__(self, stack, images):
        self.template, self.files, self.parameters = stack.get("template"), stack.get("files"), stack.get("parameters")
        self.images = images

    def create(self, template, files, parameters):
        """A new stack, or an update that says everything anew."""
        for name in sorted(_nested(template)):
            _fetch(name, files)
        for name, declared in template["parameters"].items():
            if name not in parameters and "default" not in declared:
                raise Refused("The Parameter (%s) was not provided." % name)
        for name in parameters:
            if name not in template["parameters"]:
                raise Refused("The Parameter (%s) was not defined in template." % name)
        for vdu in parameters["nfv"]["VDU"].values():
            image = vdu.get("image", vdu.get("vcImageId"))
            if image not in self.images and list(self.images.values()).count(image) > 1:
                raise Refused("No image unique match found for %s." % image)
        for name, point in parameters["nfv"]["CP"].items():
            if point.get("network") is None:
                raise Refused("Property error: resources.%s.properties: Property network not assigned" % name)
        self.template, self.files, self.parameters = template, files, parameters

    def patch(self, parameters, template=None, files=None):
        """An update of what it names; all else stays."""
        if template is None:
            template, files = self.template, {**self.files, **(files or {})}
        self.create(template, files or {}, {**self.parameters, **parameters})


def _fetch(name, files):
    if name not in files:
        raise Refused('Could not fetch remote template "%s"' % name)
    for each in sorted(_nested(files[name])):
        _fetch(each, files)


def _nested(template):
    """The templates that one nests."""
    found = set()
    for resource in template["resources"].values():
        for each in (resource, resource.get("properties", {}).get("resource", {})):
            if each.get("type", "").endswith(".yaml"):
                found.add(each["type"])
    return found
