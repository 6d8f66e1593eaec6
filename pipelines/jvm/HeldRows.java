package kappa;

import java.util.Iterator;
import java.util.NoSuchElementException;
import org.apache.spark.sql.Row;

/**
 * Rows of which some are held and made into fewer, and the others are passed on. Those that are made come when there are many, and at the end.
 * Reads as far as it must.
 */
abstract class HeldRows implements Iterator {
  private final Iterator rows;
  private Object passed;

  HeldRows(Iterator rows) {
    this.rows = rows;
  }

  /** Hold a row; false for one that is passed on. */
  protected abstract boolean add(Object row);

  /** Whether a row that was made can be had. */
  protected abstract boolean hasMade();

  /** Let all that is held be had. */
  protected abstract void handOut();

  /** A row that was made. */
  protected abstract Row made();

  /** What a row becomes that is passed on. */
  protected abstract Row passed(Object row);

  @Override
  public boolean hasNext() {
    while (passed == null && !hasMade() && rows.hasNext()) {
      Object found = rows.next();
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
