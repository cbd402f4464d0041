"""Scores weblogs with the model that train.py stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame

FEATURES = ["Age", "Visits", "Bought"]
SCHEMA = "UserID string, Time timestamp, Page string, Product string, Score double"


def recommend(weblogs: DataFrame) -> DataFrame:
    """For each visit the product that people like this visitor bought, and how sure the model is."""
    import joblib

    file = Path(__file__).with_name("recommender.joblib")
    if not file.exists():
        raise FileNotFoundError(f"{file.name} is not there; train it first: python {file.with_name('train.py')}")
    model = joblib.load(file)

    def score(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for visits in batches:
            chances = model.predict_proba(visits[FEATURES].to_numpy())
            best = chances.argmax(axis=1)
            products = pd.Series(model.classes_[best], index=visits.index)
            scored = visits[["UserID", "Time", "Page"]].assign(Product=products, Score=chances.max(axis=1))
            yield scored

    return weblogs.mapInPandas(score, SCHEMA)
