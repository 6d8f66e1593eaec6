package kappa;

import java.util.Iterator;
import org.apache.spark.sql.Row;

/** Rows of which points are summed, as rows of window, bucket and block (`WindowSums`), and the others are passed on. */
abstract class SummedRows extends HeldRows {
  protected final WindowSums sums;

  SummedRows(WindowSums sums, Iterator rows) {
    super(rows);
    this.sums = sums;
  }

  /** What a row of sums becomes. */
  protected abstract Row of(Object[] block);

  @Override
  protected boolean hasMade() {
    return sums.hasRow();
  }

  @Override
  protected void handOut() {
    sums.handOut();
  }

  @Override
  protected Row made() {
    return of(sums.row());
  }
}
