# SPDX-License-Identifier: BSD-2-Clause
"""What packaging/ has for Prometheus and Grafana names what the text for Prometheus has."""

import json
import os
import pathlib
import re
from typing import Any, Dict, List, Set

import pytest

import hwt_store

from conftest import World

PACKAGING = pathlib.Path(os.environ["HWT_TREE"]) / "packaging"


def metrics_of(world: World) -> Dict[str, Dict[str, Set[str]]]:
	"""Of each metric its labels, and of each label its values."""
	texts: List[str] = []
	with world.open_threads(lease=600) as store:

		@store.kind("mail")
		def mail(_: hwt_store.Run) -> None:
			texts.append(store.prometheus())
			store.stop()

		store.put("mail")
		store.run()
	(text,) = texts
	metrics: Dict[str, Dict[str, Set[str]]] = {}
	for name, labels in re.findall(r"^(hwt_store_\w+)(?:\{(.*)\})? ", text, re.MULTILINE):
		of_name = metrics.setdefault(name, {})
		for label, value in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels):
			of_name.setdefault(label, set()).add(value)
	return metrics


def check(expression: str, metrics: Dict[str, Dict[str, Set[str]]]) -> None:
	names = re.findall(r"\b(hwt_store_\w+)(?:\{([^}]*)\})?", expression)
	assert names, expression
	of_all: Set[str] = set()
	for name, matchers in names:
		assert name in metrics, name
		of_all |= set(metrics[name])
		for label, values in re.findall(r'(\w+)[=!~]+"([^"]*)"', matchers):
			assert label in metrics[name], f"{name} has no {label}"
			if not values.startswith("$"):
				assert set(values.split("|")) <= metrics[name][label], f"{name}: {values}"
	for labels in re.findall(r"\bby \(([^)]*)\)", expression):
		assert {label.strip() for label in labels.split(",")} <= of_all, expression


def braces_of(text: str) -> Set[str]:
	return set(re.findall(r"\{\{ ?(?:\$labels\.)?(\w+) ?\}\}", text))


def test_the_dashboard_shows_what_there_is(world: World) -> None:
	metrics = metrics_of(world)
	dashboard = json.loads((PACKAGING / "grafana/hwt-store.json").read_text())
	targets: List[Dict[str, Any]] = [target for panel in dashboard["panels"] for target in panel["targets"]]
	assert len(targets) >= 10
	for target in targets:
		check(target["expr"], metrics)
		by = re.search(r"\bby \(([^)]*)\)", target["expr"])
		assert braces_of(target["legendFormat"]) <= (set(re.split(r", ", by[1])) if by else set())
	for variable in dashboard["templating"]["list"]:
		values = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"])
		assert values is None or values[2] in metrics[values[1]]
		assert values or variable["query"] == "prometheus"
	ids = [panel["id"] for panel in dashboard["panels"]]
	assert len(set(ids)) == len(ids)


def test_the_alerts_are_of_what_there_is(world: World) -> None:
	yaml = pytest.importorskip("yaml")
	metrics = metrics_of(world)
	(group,) = yaml.safe_load((PACKAGING / "prometheus/hwt-store.yml").read_text())["groups"]
	assert len(group["rules"]) >= 5
	for rule in group["rules"]:
		assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
		assert re.fullmatch(r"\d+[smh]", rule["for"])
		check(rule["expr"], metrics)
		by = re.search(r"\bby \(([^)]*)\)", rule["expr"])
		named = set(re.split(r", ", by[1])) if by else {"instance"}
		assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= named


def test_each_reason_that_nobody_asked_for_alerts(world: World) -> None:
	yaml = pytest.importorskip("yaml")
	reasons = metrics_of(world)["hwt_store_waiting"]["reason"]
	text = (PACKAGING / "prometheus/hwt-store.yml").read_text()
	assert yaml.safe_load(text)
	alert = {word for words in re.findall(r'reason=~"([^"]*)"', text) for word in words.split("|")}
	assert reasons - alert == {"starts", "pause", "nobody"}  # nobody is told by the database
