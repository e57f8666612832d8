/**
 * The assignment problem, solved by shortest augmenting paths (the Hungarian method): O(rows^2 * columns). Rows and
 * columns are GPUs.
 */

/**
 * The column of each row, all different, so that the sum of `cost(row, column)` is the least
 * possible. Needs `rows <= columns` and finite costs whose sums stay below 2^53. Deterministic.
 */
export function assign(
  rows: number,
  columns: number,
  cost: (row: number, column: number) => number,
): number[] {
  // Row 0 and column 0 are sentinels: everything real is counted from 1.
  const rowPrice = new Array<number>(rows + 1).fill(0);
  const columnPrice = new Array<number>(columns + 1).fill(0);
  const rowOf = new Array<number>(columns + 1).fill(0);
  const at = (list: readonly number[], index: number) => list[index] as number;

  for (let row = 1; row <= rows; row++) {
    const cameFrom = new Array<number>(columns + 1).fill(0);
    const distance = new Array<number>(columns + 1).fill(Number.POSITIVE_INFINITY);
    const done = new Array<boolean>(columns + 1).fill(false);
    rowOf[0] = row;
    let column = 0;
    // Runs until a free column is reached. Then the assignments on the path back to `row` are exchanged.
    do {
      done[column] = true;
      const current = at(rowOf, column);
      let nearest = 0;
      let least = Number.POSITIVE_INFINITY;
      for (let next = 1; next <= columns; next++) {
        if (done[next]) continue;
        const length = cost(current - 1, next - 1) - at(rowPrice, current) - at(columnPrice, next);
        if (length < at(distance, next)) {
          distance[next] = length;
          cameFrom[next] = column;
        }
        if (at(distance, next) < least) {
          least = at(distance, next);
          nearest = next;
        }
      }
      for (let other = 0; other <= columns; other++) {
        if (done[other]) {
          rowPrice[at(rowOf, other)] = at(rowPrice, at(rowOf, other)) + least;
          columnPrice[other] = at(columnPrice, other) - least;
        } else {
          distance[other] = at(distance, other) - least;
        }
      }
      column = nearest;
    } while (at(rowOf, column) !== 0);
    while (column !== 0) {
      const previous = at(cameFrom, column);
      rowOf[column] = at(rowOf, previous);
      column = previous;
    }
  }
  const columnOf = new Array<number>(rows).fill(-1);
  rowOf.slice(1).forEach((row, index) => {
    if (row > 0) columnOf[row - 1] = index;
  });
  return columnOf;
}
