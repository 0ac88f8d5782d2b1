# SPDX-License-Identifier: Apache-2.0
"""The expectations of a job's loss curve."""

from dataclasses import dataclass

from job import Job
from plain import Curve

TOLERANCE = 1e-5
"""Greatest relative difference of two losses in float32."""


@dataclass
class Result:
    job: Job
    plain: dict[int, Curve]
    """PyTorch's curves by seed. The job has seed 0."""

    def difference(self) -> float:
        """The greatest relative difference of losses of steps and evaluations from those of PyTorch."""
        expected = self.plain[0]
        pairs = list(zip(self.job.curve.losses, expected.losses, strict=True))
        pairs += [(self.job.curve.evaluations[step], loss) for step, loss in expected.evaluations.items()]
        return max(abs(found - loss) / loss for found, loss in pairs)

    def distances(self) -> list[tuple[float, float]]:
        """For each evaluation, the distance of the job's loss from PyTorch's, and the greatest one between two seeds.
        """
        pairs = []
        for step, loss in self.job.curve.evaluations.items():
            seeds = [curve.evaluations[step] for curve in self.plain.values()]
            pairs.append((abs(loss - seeds[0]), max(seeds) - min(seeds)))
        return pairs

    def is_close(self) -> bool:
        """In float32 the losses are PyTorch's. Else those of evaluations differ less than those of PyTorch's seeds."""
        if len(self.plain) == 1:
            return self.difference() <= TOLERANCE
        return all(distance <= spread for distance, spread in self.distances())
