"""Statistics of cell means that claims are judged by; each works on means of any leading shape (for the jackknife).

Every factory returns a `Statistic` with components along the last axis. Ratios are natural logarithms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from empirical.statistics import Means, Statistic, extrapolate, slope

Array = np.ndarray
Depths = Sequence[tuple[int, str]]
"""(depth or width, label of the cell), rising."""


def reading(cell: str, quantity: str, row: int) -> Statistic:
    """The mean of one row."""
    return lambda means: means[cell][quantity][..., row, None]


def difference(above: str, below: str, quantity: str, row: int = -1) -> Statistic:
    """The mean of one row in the cell ``above`` less that in the cell ``below``."""
    over, under = reading(above, quantity, row), reading(below, quantity, row)
    return lambda means: over(means) - under(means)


def share_learned(cell: str) -> Statistic:
    """How far a trained arm has come from the loss of unigrams (0) to that of bigrams (1)."""

    def statistic(means: Means) -> Array:
        start, end, own = (means[cell][name][..., -1, None] for name in ("unlearned-loss", "bigram-loss", "final-loss"))
        return (start - own) / (start - end)

    return statistic


def learned_over(cell: str, other: str) -> Statistic:
    """What one arm has learned over what another has, each from the loss of a model that ignores its input."""

    def statistic(means: Means) -> Array:
        own, others = (means[c]["unlearned-loss"] - means[c]["final-loss"] for c in (cell, other))
        return own / others

    return statistic


def margin(cell: str, first: int = 1) -> Statistic:
    """How far every held-out loss from evaluation ``first`` on lies below that of a model that ignores its input."""
    return lambda means: means[cell]["unlearned-loss"] - means[cell]["held-out-loss"][..., first:]


def log_reading(cell: str, quantity: str, row: int, power: float = 1.0) -> Statistic:
    """``power`` times the logarithm of one row's mean."""
    return lambda means: power * np.log(means[cell][quantity][..., row, None])


def ratio(cell: str, quantity: str, above: int, below: int) -> Statistic:
    """Row ``above`` over row ``below``: for few members, whose ratio's logarithm scatters by more than 1."""
    return lambda means: means[cell][quantity][..., above, None] / means[cell][quantity][..., below, None]


def log_ratio(cell: str, quantity: str, above: int, below: int, power: float = 1.0) -> Statistic:
    """``power`` times the logarithm of row ``above`` over row ``below``."""
    return lambda means: (
        power * (np.log(means[cell][quantity][..., above, None]) - np.log(means[cell][quantity][..., below, None]))
    )


def log_ratio_of_cells(above: str, below: str, quantity: str, row: int) -> Statistic:
    """Logarithm of one row of the cell ``above`` over the same row of the cell ``below``."""
    over, under = log_reading(above, quantity, row), log_reading(below, quantity, row)
    return lambda means: over(means) - under(means)


def log_over_cell(above: str, below: str, quantity: str, rows: slice = slice(None)) -> Statistic:
    """Logarithm of the cell ``above`` over the cell ``below``, one component a row."""
    return lambda means: np.log(means[above][quantity][..., rows]) - np.log(means[below][quantity][..., rows])


def log_ratio_over_cell(cell: str, other: str, quantity: str, above: int, below: int) -> Statistic:
    """Logarithm of (row ``above`` over row ``below``) of one cell over the same of another."""
    over, under = (log_ratio(label, quantity, above, below) for label in (cell, other))
    return lambda means: over(means) - under(means)


def log_ratio_of_sums(above: str, below: str, quantity: str) -> Statistic:
    """Logarithm of a quantity summed over the rows of the cell ``above``, over the same sum of the cell ``below``."""
    return lambda means: np.log(
        means[above][quantity].sum(axis=-1, keepdims=True) / means[below][quantity].sum(axis=-1, keepdims=True)
    )


def log_bend(cell: str, quantity: str, rows: tuple[int, int, int], power: float = 1.0) -> Statistic:
    """``power`` times the second difference of the logarithm over three equally spaced rows: 0 for an exponential."""

    def statistic(means: Means) -> Array:
        start, middle, end = (np.log(means[cell][quantity][..., row, None]) for row in rows)
        return power * (start - 2 * middle + end)

    return statistic


def log_relative(cell: str, quantity: str, law: Array, rows: slice = slice(None)) -> Statistic:
    """Logarithm of measured over predicted, one component a layer."""
    predicted = np.log(law[rows])
    return lambda means: np.log(means[cell][quantity][..., rows]) - predicted


def log_relative_at_infinite_width(cells: Depths, quantity: str, law: Array) -> Statistic:
    """Logarithm of measured over predicted, row by row, extrapolated linearly in 1/width over (width, label) cells."""
    x = np.array([1 / width for width, _ in cells])
    errors = [log_relative(label, quantity, law) for _, label in cells]

    def statistic(means: Means) -> Array:
        found = np.broadcast_arrays(*(error(means) for error in errors))
        return extrapolate(x, np.stack(found, axis=-1), 0.0)

    return statistic


def median_error(cell: str, quantity: str, law: Array) -> Statistic:
    """Median over rows of |log(measured/predicted)|."""
    error = log_relative(cell, quantity, law)
    return lambda means: np.median(np.abs(error(means)), axis=-1)[..., None]


def log_relative_by_matrix(cell: str, quantity: str, law: Array, matrices: int, of: slice = slice(None)) -> Statistic:
    """Logarithm of measured over predicted, averaged over blocks; one for each of a block's ``matrices``; ``of`` some rows."""
    error = log_relative(cell, quantity, law, of)

    def statistic(means: Means) -> Array:
        rows = error(means)
        return rows.reshape(*rows.shape[:-1], -1, matrices).mean(axis=-2)

    return statistic


def departure(cell: str, quantity: str, law: Array) -> Statistic:
    """Measured less predicted, one component a layer."""
    return lambda means: means[cell][quantity] - law


def log_proportion(cell: str, quantity: str, x: Array, rows: slice, reference: int) -> Statistic:
    """Logarithm of mean/x over rows, relative to row ``reference``: 0 everywhere for a mean proportional to x."""

    def statistic(means: Means) -> Array:
        share = np.log(means[cell][quantity][..., rows]) - np.log(x[rows])
        return share - np.log(means[cell][quantity][..., reference, None] / x[reference])

    return statistic


def log_increments(cells: Depths, quantity: str, row: int) -> Statistic:
    """Logarithm of the last increment over the one before, between three depths in geometric progression.

    1 for a logarithm of the depth, the depths' common ratio for a linear law.
    """

    def statistic(means: Means) -> Array:
        return _last_increment([means[cell][quantity][..., row, None] for _, cell in cells[-3:]])

    return statistic


def growth_of_logarithm(cells: Depths, quantity: str, row: int) -> Statistic:
    """`log_increments` of the logarithm: 0 for a power of the depth, p·ln(the depths' common ratio) for exp(L^p)."""
    return lambda means: _last_increment([np.log(means[cell][quantity][..., row, None]) for _, cell in cells[-3:]])


def growth_of_logarithm_along(cell: str, quantity: str, rows: tuple[int, int, int]) -> Statistic:
    """The same along one network, between three rows in geometric progression."""
    return lambda means: _last_increment([np.log(means[cell][quantity][..., row, None]) for row in rows])


def log_relative_ratio(cell: str, above: str, below: str, law: Array, rows: slice = slice(None)) -> Statistic:
    """Logarithm of one quantity over another, over its law, one component a layer."""
    predicted = np.log(law[rows])
    return lambda means: np.log(means[cell][above][..., rows] / means[cell][below][..., rows]) - predicted


def log_over_bound(cells: Depths, quantity: str, row: int, bound: Array, power: float = 1.0) -> Statistic:
    """Logarithm of (row ``row`` over the last row)^power over ``bound``, one component a depth."""

    def statistic(means: Means) -> Array:
        ratio = _over_depths(means, cells, quantity, row) - _over_depths(means, cells, quantity, -1)
        return power * ratio - np.log(bound)

    return statistic


def depth_exponent(cells: Depths, quantity: str, row: int, power: float = 1.0) -> Statistic:
    """Exponent of row ``row`` in depth: slope of log mean^power on log L."""
    x = np.log([depth for depth, _ in cells])
    return lambda means: power * slope(x, _over_depths(means, cells, quantity, row))[..., None]


def local_exponents(cells: Depths, quantity: str, row: int, power: float = 1.0) -> Statistic:
    """Exponents of row ``row`` between successive depths, one component a pair: a power law has the same everywhere."""
    x = np.log([depth for depth, _ in cells])
    return lambda means: power * np.diff(_over_depths(means, cells, quantity, row), axis=-1) / np.diff(x)


def held_out(cells: Depths, quantity: str, row: int) -> Statistic:
    """Logarithm of the deepest cell's row over the value that a power law through the other cells extrapolates to."""
    x = np.log([depth for depth, _ in cells])

    def statistic(means: Means) -> Array:
        y = _over_depths(means, cells, quantity, row)
        return (y[..., -1] - extrapolate(x[:-1], y[..., :-1], x[-1]))[..., None]

    return statistic


def excess_exponent(cells: Depths, quantity: str, row: int) -> Statistic:
    """Exponent in L − l of (row over last row) − 1, for a law 1 + constant·(L − l)."""
    x = np.log([depth - row for depth, _ in cells])

    def statistic(means: Means) -> Array:
        excess = [means[cell][quantity][..., row] / means[cell][quantity][..., -1] - 1 for _, cell in cells]
        return slope(x, np.log(np.stack(np.broadcast_arrays(*excess), axis=-1)))[..., None]

    return statistic


def slope_on(cell: str, quantity: str, x: Array, rows: slice = slice(None), power: float = 1.0) -> Statistic:
    """Slope of log mean^power over rows on ``x``: an exponent for x = log of something, a rate for x = layer."""
    return lambda means: power * slope(x, np.log(means[cell][quantity][..., rows]))[..., None]


def slope_across_widths(cells: Depths, quantity: str, corrections: Mapping[str, Array], rows: slice) -> Statistic:
    """Logarithm of the slope of a quantity against the number of blocks to the output, at infinite width.

    Args:
        cells: (width, label) of one network at several widths.
        corrections: by label, what finite width is known to multiply each row with.
        rows: the rows that the slope is taken over; what is left of it is extrapolated linearly in 1/width.
    """
    x = np.array([1 / width for width, _ in cells])

    def statistic(means: Means) -> Array:
        slopes = []
        for _, label in cells:
            values = (means[label][quantity] / corrections[label])[..., rows]
            slopes.append(np.log(-slope(np.arange(values.shape[-1]), values)))
        return extrapolate(x, np.stack(np.broadcast_arrays(*slopes), axis=-1), 0.0)[..., None]

    return statistic


def log_excess_per_block(cell: str, quantity: str, width: int, rows: slice) -> Statistic:
    """Logarithm of V if each block down multiplies the mean by 1 + V/width."""

    def statistic(means: Means) -> Array:
        values = np.log(means[cell][quantity][..., rows])
        return np.log(width * np.expm1(-slope(np.arange(values.shape[-1]), values)))[..., None]

    return statistic


def log_scatter_per_block(cell: str, width: int, rows: slice) -> Statistic:
    """Logarithm of V if each block down adds 4V/width to the variance of the logarithm over networks."""

    def statistic(means: Means) -> Array:
        values = _scatter(means[cell])[..., rows]
        return np.log(-width / 4 * slope(np.arange(values.shape[-1]), values))[..., None]

    return statistic


def log_scatter_relative(cell: str, law: Array, rows: slice = slice(None)) -> Statistic:
    """Logarithm of the variance of log-gradients over networks, measured over predicted, one component a layer."""
    predicted = np.log(law[rows])
    return lambda means: np.log(_scatter(means[cell])[..., rows]) - predicted


def log_scatter_increments(cells: Depths, places: Sequence[int]) -> Statistic:
    """Logarithm of the scatter's last increment over the one before, between three depths in geometric progression.

    Args:
        cells: the depths.
        places: the layer that is read of each of the last three.
    """

    def statistic(means: Means) -> Array:
        last = zip(cells[-3:], places, strict=True)
        return _last_increment([_scatter(means[cell])[..., place, None] for (_, cell), place in last])

    return statistic


def log_scatter_ratio(above: tuple[str, int], below: tuple[str, int]) -> Statistic:
    """Logarithm of the scatter at one (cell, layer) over the scatter at another."""

    def statistic(means: Means) -> Array:
        first, second = (_scatter(means[cell])[..., row, None] for cell, row in (above, below))
        return np.log(first / second)

    return statistic


def _scatter(means: Mapping[str, Array]) -> Array:
    """Variance over networks of log|∂𝓛/∂x_l|² from the means of the logarithm and of its square."""
    mean: Array = means["log-gradient"]
    return means["squared-log-gradient"] - mean**2


def log_slope_of_ratio(cell: str, above: str, below: str, correction: Array, x: Array, rows: slice) -> Statistic:
    """Logarithm of the slope on ``x`` of one quantity over another and over ``correction``, row by row."""

    def statistic(means: Means) -> Array:
        ratio = means[cell][above] / means[cell][below] / correction
        return np.log(slope(x[rows], ratio[..., rows]))[..., None]

    return statistic


def minus(statistic: Statistic, constant: float) -> Statistic:
    """A statistic less a constant: on logarithms, over a factor."""
    return lambda means: statistic(means) - constant


def count_positive(cell: str, quantity: str) -> Statistic:
    """Number of rows whose mean is not exactly zero."""
    return lambda means: (means[cell][quantity] > 0).sum(axis=-1)[..., None].astype(float)


def _last_increment(values: Sequence[Array]) -> Array:
    start, middle, end = values
    return np.log((end - middle) / (middle - start))


def _over_depths(means: Means, cells: Depths, quantity: str, row: int) -> Array:
    return np.log(np.stack(np.broadcast_arrays(*(means[cell][quantity][..., row] for _, cell in cells)), axis=-1))
