"""Exposed roles can be in any pod: every distribution of the roles of a troupe over pods is a valid plan."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.pod.declaration import checked_plan
from bandstand.pod.enums import ThreadModel
from bandstand.pod.spec import PodSpec
from tests.pod.declaring import Studio


@st.composite
def layouts(draw: st.DrawFn) -> dict[str, PodSpec]:
    """The roles of the studio, all exposed, in any pods and any order."""
    roles = [replace(role, is_exposed=True) for pod in Studio.layout().values() for role in pod.roles]
    homes = draw(st.lists(st.integers(0, 3), min_size=len(roles), max_size=len(roles)))
    layout: dict[str, PodSpec] = {}
    for home in draw(st.permutations(sorted(set(homes)))):
        members = tuple(role for role, at in zip(roles, homes, strict=True) if at == home)
        thread = draw(st.sampled_from([ThreadModel.COOPERATIVE, ThreadModel.DEDICATED, ThreadModel.PROCESS]))
        layout[f"pod{home}"] = PodSpec(name=f"pod{home}", roles=members, thread=thread)
    return layout


@pytest.mark.spec("S12", "S13")
@given(layouts())
def test_every_distribution_of_exposed_roles_over_pods_is_valid(layout: dict[str, PodSpec]) -> None:
    spec = checked_plan(Studio, layout).spec
    assert spec.pods == tuple(layout.values())
    for pod in layout:
        assert set(spec.visible_to(pod)) == {"vsync", "engine", "config", "display"}
