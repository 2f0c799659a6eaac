"""Lints a chart and renders it as `helm lint` and `helm template` do, by Helm's own library.

render.py CHART    reads values as JSON from stdin, prints {"messages": […], "manifests": {"FILE": "YAML"}}
"""

import json
import sys

import helm_python as helm

path = sys.argv[1]
values = json.load(sys.stdin)
with helm.Chart.load(path) as chart:
    manifests = chart.render(values, name="release", namespace="elsewhere")
print(json.dumps({"messages": helm.lint(path, strict=True)["messages"], "manifests": manifests}))
