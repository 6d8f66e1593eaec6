package kappa;

import java.util.Iterator;
import java.util.NoSuchElementException;
import org.apache.spark.sql.Row;

/** Rows of which points are summed and the others are passed on; sums come when there are many, and at the end. Reads as far as it must. */
abstract class SummedRows implements Iterator {
  protected final WindowSums sums;
  private final Iterator rows;
  private Row passed;

  SummedRows(WindowSums sums, Iterator rows) {
    this.sums = sums;
    this.rows = rows;
  }

  /** Add a row to the sums; false for one that is passed on. */
  protected abstract boolean add(Row row);

  /** What a row becomes that is passed on. */
  protected abstract Row of(Row row);

  /** What a row of sums becomes. */
  protected abstract Row of(Object[] block);

  @Override
  public boolean hasNext() {
    while (passed == null && !sums.hasRow() && rows.hasNext()) {
      Row found = (Row) rows.next();
      if (!add(found)) {
        passed = found;
      }
    }
    if (passed == null && !sums.hasRow()) {
      sums.handOut();
    }
    return passed != null || sums.hasRow();
  }

  @Override
  public Object next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    if (passed == null) {
      return of(sums.row());
    }
    Row found = of(passed);
    passed = null;
    return found;
  }
}
