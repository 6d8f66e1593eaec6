package kappa;

/** Goes through the series of two blocks in their order, one at a time. */
final class SumsPair {
  private final SumsCursor left;
  private final SumsCursor right;
  private boolean more;
  private boolean others;
  private boolean begun = false;
  private int order; // of the series at hand: below 0 it is of the left one, above of the right one, 0 of both

  SumsPair(byte[] one, byte[] other) {
    left = new SumsCursor(one);
    right = new SumsCursor(other);
    more = left.next();
    others = right.next();
  }

  boolean next() {
    if (begun) {
      more = order <= 0 ? left.next() : more;
      others = order >= 0 ? right.next() : others;
    }
    begun = true;
    order = more && others ? left.compare(right) : more ? -1 : 1;
    return more || others;
  }

  /** The series at hand; where it is of both, as the left one has it. */
  SumsCursor at() {
    return order <= 0 ? left : right;
  }

  /** The same as the right one has it; null where it is not of both. */
  SumsCursor other() {
    return order == 0 ? right : null;
  }
}
