// libpq, loaded when the first PostgreSQL database is opened.
import CPostgres

/// The functions of the system's libpq.
enum PostgresLibrary {
    #if canImport(Darwin)
        private static let names = [
            "libpq.5.dylib", "/opt/homebrew/opt/libpq/lib/libpq.5.dylib", "/usr/local/opt/libpq/lib/libpq.5.dylib",
        ]
        private static let advice = "brew install libpq"
    #else
        private static let names = ["libpq.so.5"]
        private static let advice = "apt-get install libpq5"
    #endif

    /// The library, which is loaded once in the process.
    ///
    /// After a failure, the process does not try again to load the library.
    static let shared = Result { () throws(PostgresError) in try open(names) }

    /// The first library that exists and has all functions.
    static func open(_ names: [String]) throws(PostgresError) -> convoy_pg_functions {
        var reasons: [String] = []
        for name in names {
            var missing: UnsafePointer<CChar>?
            if let functions = convoy_pg_open(name, &missing) { return functions.pointee }
            let reason = missing.map { String(cString: $0) } ?? "no memory is left"
            reasons.append(reason.hasPrefix("PQ") ? "\(name) has no \(reason)" : reason)
        }
        throw PostgresError(
            .libraryMissing,
            "PostgreSQL needs \(names.first ?? "libpq"); \(advice) (\(reasons.joined(separator: "; ")))")
    }
}
