"""What a run produces: sections, made of groups of samples that may be compared with each other.

Samples keep their rounds until the report is written, because ratios and differences are formed
round by round; the JSON report holds their summaries.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from bench import timing


@dataclass
class Group:
    """Samples of several subjects that were taken interleaved, in the order of the rounds.

    The reference is the subject that the report compares the others with.
    """

    row: str
    unit: str
    reference: str
    samples: dict[str, list[float]]

    def ratio(self, subject: str, peer: str) -> timing.Summary:
        """Return `subject` over `peer`, formed round by round."""
        return timing.ratios(self.samples[subject], self.samples[peer])

    def difference(self, subject: str, peer: str) -> timing.Summary:
        """Return `subject` minus `peer`, formed round by round, in the group's unit."""
        return timing.differences(self.samples[subject], self.samples[peer])

    def summaries(self) -> dict[str, timing.Summary]:
        """Return the summary of every subject, in the order in which they were declared."""
        return {name: timing.summarise(values) for name, values in self.samples.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the group as it stands in the report, with summaries for samples."""
        subjects = {}
        for name, summary in self.summaries().items():
            subjects[name] = {
                **asdict(summary),
                "ratio": asdict(self.ratio(name, self.reference)),
                "difference": asdict(self.difference(name, self.reference)),
            }
        return {
            "row": self.row,
            "unit": self.unit,
            "reference": self.reference,
            "subjects": subjects,
        }


@dataclass
class Section:
    """One part of the benchmark: its method, its groups, what is absent, and plain figures."""

    name: str
    method: str
    groups: list[Group] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)

    def group(self, row: str) -> Group | None:
        """Return the group of that row, or None where it was not measured."""
        return next((group for group in self.groups if group.row == row), None)

    def merge(self, other: Section) -> None:
        """Append the rounds of the same section, measured in another process."""
        self.absent.update(other.absent)
        for group in other.groups:
            mine = self.group(group.row)
            if mine is None:
                self.groups.append(group)
            elif mine.samples.keys() != group.samples.keys():
                raise ValueError(f"'{self.name}': the processes measured different subjects")
            else:
                for subject, values in group.samples.items():
                    mine.samples[subject].extend(values)

    def to_raw(self) -> dict[str, Any]:
        """Return the section with every sample, as a worker process hands it over."""
        return asdict(self)

    @classmethod
    def from_raw(cls, raw: dict[str, Any]) -> Section:
        """Return the section that `to_raw` described."""
        return cls(**{**raw, "groups": [Group(**group) for group in raw["groups"]]})

    def to_json(self) -> dict[str, Any]:
        """Return the section as it stands in the report, with summaries for samples."""
        return {
            "name": self.name,
            "method": self.method,
            "groups": [group.to_json() for group in self.groups],
            "absent": self.absent,
            "figures": self.figures,
        }
