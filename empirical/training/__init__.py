"""Training of networks built from the same variant expressions as those measured at initialisation."""

from empirical.training.arm import Arm
from empirical.training.cell import TrainingCell
from empirical.training.crew import Crew
from empirical.training.run import Trained, train
from empirical.training.schedules import Schedule

__all__ = ["Arm", "Crew", "Schedule", "Trained", "TrainingCell", "train"]
