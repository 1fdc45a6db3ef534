"""Reports: HTML pages about a release, for the owner of the data or for the public."""

from pgmest.evaluation.reports.report import report

__all__ = ["report"]
