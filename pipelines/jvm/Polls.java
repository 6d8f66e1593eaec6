package kappa;

/** Which poll of a consumer of Kafka a thread is in: ConsumerInterceptors ends it, ByteArrayDeserializer asks for it. */
public final class Polls {
  private static final ThreadLocal CURRENT = new ThreadLocal() {
    @Override
    protected Object initialValue() {
      return new Object();
    }
  };

  private Polls() {}

  /** What stands for the poll: another object for each. */
  public static Object current() {
    return CURRENT.get();
  }

  /** The thread's poll has its records. */
  public static void end() {
    CURRENT.set(new Object());
  }
}
