"""Files of measurements: JSON for people and other tools, npz for large measurements.

The ending of the path, .json or .npz, determines the format. A JSON file is one object. Each measurement in it has a
clique, noisy answers in counts, and the noise:

>>> EXAMPLE = '''
... {
...   "format": "pgmest-measurements",
...   "version": 1,
...   "comment": "optional, here and in each measurement",
...   "measurements": [
...     {"clique": ["sex"], "values": [60.2, 38.9], "stddev": 2.0},
...     {"clique": ["age", "sex"], "values": [[20.1, 9.5], [31.7, 18.2], [8.8, 11.4]],
...      "noise": "laplace", "scale": 1.5},
...     {"clique": ["age"], "query": "prefix", "values": [30, 80, 100], "noise": "discrete_gaussian", "stddev": 5},
...     {"clique": ["age"], "query": {"kind": "subset", "members": [0, 2]}, "values": [49.0], "stddev": 3.0},
...     {"clique": ["age", "sex"], "values": [9.0, 12.0, 17.0, 29.0], "stddev": [3.0, 3.0, 4.0, 4.0],
...      "query": {"kind": "kron", "factors": [["sex", {"kind": "matrix", "rows": [[0, 1], [1, 1]]}],
...                                            ["age", {"kind": "compress", "mapping": [0, 0, 1]}]]}},
...     {"clique": [], "values": 99.0, "stddev": 4.0}
...   ]
... }'''
>>> import tempfile, pathlib
>>> path = pathlib.Path(tempfile.mkdtemp()) / "measurements.json"
>>> characters = path.write_text(EXAMPLE)
>>> for measurement in load_measurements(path, {"age": 3, "sex": 2}):
...     print(measurement.clique, measurement.rows, measurement.noise)
('sex',) 2 gaussian
('age', 'sex') 6 laplace
('age',) 3 discrete_gaussian
('age',) 1 gaussian
('age', 'sex') 4 gaussian
() 1 gaussian

Fields of a measurement:

- "clique": attribute names, in the order of the table's axes; [] for the number of records.
- "values": the noisy answers, in counts: a flat list, or a nested one with the shape of the table (or, for a kron, of
  its answers).
- "noise": "gaussian" (the default), "laplace", "discrete_gaussian" or "discrete_laplace".
- "stddev" or "scale": the noise's standard deviation, or its parameter (sigma for Gaussian noise; b for Laplace noise,
  whose probability is proportional to exp(-|k| / b)). One number, or one for each value.
- "query": the query that the values answer; by default "identity", the whole table. A query is an object with a "kind",
  or the kind alone if no other field is needed:
  "identity", "total", "prefix", "all_range", "haar"; "hierarchical" ("branching", 2 if absent); "point" ("code");
  "interval" ("start", "stop", exclusive); "subset" ("members"); "compress" ("mapping", optional "count"); "mean"
  (optional "values"); "moments" ("k", optional "values"), all as in `pgmest.queries`; "matrix" ("rows", a list of
  rows); "sparse" ("shape", and the nonzero entries as three lists "row", "column" and "value"); and "kron"
  ("factors": [attribute, query] pairs, whose order is the order of the answers).
  Queries other than a kron weigh the cells of the clique's table, row-major.

Published tables without noise have one of the following fields instead of "noise" and its scale (from version 2 of the
format on):

- "exact": true, for exact values.
- "rounded": the base, for whole numbers that were rounded to its multiples. With "random": true, each was rounded to
  the multiple above or below at random.
- "percent_of": the count that is 100 %, or one for each value, for percentages rounded to "decimals" (default 0).
- "suppressed": the threshold, for counts of which smaller ones were hidden. In the values, null is a hidden count below
  the threshold, "complementary" a count that was hidden to protect others. "least" is the smallest hidden count
  (default 0; 1 if zeros are published).
- "low" and "high" instead of "values": the ends of each answer; null as an upper end means that there is no upper end.
  "total" is the number of records, if it was published with the table.

>>> PUBLISHED = '''
... {"format": "pgmest-measurements", "version": 2, "measurements": [
...   {"clique": ["sex"], "values": [61, 39], "exact": true},
...   {"clique": ["age", "sex"], "values": [[20, 10], [30, 20], [10, 10]], "rounded": 10, "random": true},
...   {"clique": ["age"], "values": [30, null, "complementary"], "suppressed": 10, "least": 1},
...   {"clique": ["age"], "low": [25, 0, 0], "high": [35, 9, null]}]}'''
>>> characters = path.write_text(PUBLISHED)
>>> for measurement in load_measurements(path, {"age": 3, "sex": 2}):
...     print(measurement)
LinearMeasurement(sex: 2 answers, identity, exact)
LinearMeasurement(age, sex: 6 answers, identity, between ends 18 apart)
LinearMeasurement(age: 3 answers, identity, between ends 0 to inf apart)
LinearMeasurement(age: 3 answers, identity, between ends 9 to inf apart)

An .npz file contains the same object as UTF-8 text in the member "header". Any list of numbers in it can be replaced by
{"array": name}, where name is another member, which may be used once. No pickled objects are written or read.
"""

from pgmest.measurements.files.read import load_measurements
from pgmest.measurements.files.write import save_measurements

__all__ = ["load_measurements", "save_measurements"]
