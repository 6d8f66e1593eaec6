package kappa;

import java.util.Iterator;
import java.util.NoSuchElementException;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/**
 * Rows of which some are held and made into fewer, and the others are passed on. Those that are made come when there are many, and at the end.
 * Reads as far as it must.
 */
abstract class HeldRows implements Iterator {
  private final Iterator rows;
  private Row passed;

  HeldRows(Iterator rows) {
    this.rows = rows;
  }

  /** Hold a row; false for one that is passed on. */
  protected abstract boolean add(Row row);

  /** Whether a row that was made can be had. */
  protected abstract boolean hasMade();

  /** Let all that is held be had. */
  protected abstract void handOut();

  /** A row that was made. */
  protected abstract Row made();

  /** What a row becomes that is passed on. */
  protected abstract Row passed(Row row);

  /** A row, and so many nulls behind it. */
  static Row before(Row row, int nulls) {
    Object[] values = new Object[row.length() + nulls];
    for (int i = 0; i < row.length(); i++) {
      values[i] = row.get(i);
    }
    return RowFactory.create(values);
  }

  /** Values, and so many nulls before them. */
  static Row behind(int nulls, Object[] values) {
    Object[] row = new Object[nulls + values.length];
    System.arraycopy(values, 0, row, nulls, values.length);
    return RowFactory.create(row);
  }

  @Override
  public boolean hasNext() {
    while (passed == null && !hasMade() && rows.hasNext()) {
      Row found = (Row) rows.next();
      if (!add(found)) {
        passed = found;
      }
    }
    if (passed == null && !hasMade()) {
      handOut();
    }
    return passed != null || hasMade();
  }

  @Override
  public Object next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    if (passed == null) {
      return made();
    }
    Row found = passed(passed);
    passed = null;
    return found;
  }
}
