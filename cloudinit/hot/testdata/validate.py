"""Have Heat's own engine validate templates, with no service behind it.

stdin: JSON [{"template": text, "files": {name: text}, "parameters": {name: value}}]
"""
import json
import sys

from oslo_config import cfg
from heat.common import context, template_format
from heat.engine import constraints, environment, resource, resources, stack, template
import heat.engine.clients  # noqa: F401 (it registers options)

cfg.CONF([], project="heat", default_config_files=[])
resources.initialise()
# What only a cloud can say: its services, and whether an image or a flavor is there.
resource.Resource.is_service_available = classmethod(lambda *a, **k: (True, None))
constraints.BaseCustomConstraint.validate = lambda *a, **k: True



def validate(given):
    ctx = context.RequestContext(project_id="p", user_id="u", username="u", is_admin=True,
                                 auth_url="http://127.0.0.1:1", roles=[])
    env = environment.Environment({"parameters": given["parameters"]})
    parsed = template.Template(template_format.parse(given["template"]), files=given["files"], env=env)
    made = stack.Stack(ctx, "validated", parsed, strict_validate=False)
    made.validate(validate_res_tmpl_only=True)
    made.strict_validate = True
    for each in made.resources.values():
        each.validate_template()  # properties, of which some are not known yet
    print(sorted(made.resources))


for each in json.load(sys.stdin):
    validate(each)
