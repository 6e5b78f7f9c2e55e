import org.postgresql.util.DriverInfo;

/** The checks of pgjdbc, the JDBC driver of PostgreSQL. */
final class Pgjdbc {
    private Pgjdbc() {}

    public static void main(String[] arguments) {
        System.out.println("version pgjdbc " + DriverInfo.DRIVER_VERSION);
        Connecting.run();
        Statements.run();
        Batches.run();
        Results.run();
        Values.run();
        Transactions.run();
        Errors.run();
        Traffic.run();
        Metadata.run();
    }
}
