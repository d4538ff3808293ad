import Convoy
import ConvoySQLite
import Foundation

// This clock cannot be set, and continues after a reboot. Within a boot, the value is the time since boot, including
// sleep, plus a shift that all processes read from the database. The first process after a boot sets a new shift from
// the calendar, or from the last recorded time if the calendar is earlier.
struct SQLiteTime {
    private static let reference = (instant: ContinuousClock.now, milliseconds: sinceBoot())

    let clock: any RequestClock
    private var shift: Int64 = 0

    init(clock: any RequestClock) { self.clock = clock }

    var now: Int64 { shift + uptime }

    var date: Int64 { Int64(clamping: clock.date) }

    private var uptime: Int64 {
        Self.reference.milliseconds + Int64(clamping: Self.reference.instant.duration(to: clock.now))
    }

    // Returns true for the first process after a boot, and for a new database. No earlier owner is then alive.
    mutating func anchor(in connection: SQLiteConnection, boot: String) throws -> Bool {
        let known = try connection.row("SELECT boot, shift, last FROM clock LIMIT 1") { row in
            (boot: row.text(0), shift: row.integer(1) ?? 0, last: row.integer(2) ?? 0)
        }
        // Without a boot ID, all boots look the same. The clock then shows a new boot: with the stored shift, it is
        // behind the last recorded time.
        if let known, known.boot == boot, known.shift + uptime >= known.last {
            shift = known.shift
            return false
        }
        shift = max(date, (known?.last ?? 0) + 1) - uptime
        try connection.run("DELETE FROM clock")
        try connection.run("INSERT INTO clock VALUES(?, ?, ?)", .text(boot), .integer(shift), .integer(now))
        return true
    }

    /// After the next boot, the clock does not continue before the recorded time.
    func note(in connection: SQLiteConnection) throws {
        try connection.run("UPDATE clock SET last = ? WHERE last < ?", .integer(now), .integer(now))
    }

    private static func sinceBoot() -> Int64 {
        var time = timespec()
        #if os(Linux)
            clock_gettime(CLOCK_BOOTTIME, &time)
        #else
            clock_gettime(CLOCK_MONOTONIC_RAW, &time)
        #endif
        return Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
    }
}

extension Int64 {
    init(clamping duration: Duration) {
        let (seconds, attoseconds) = duration.components
        guard seconds.magnitude < 100_000_000_000 else {
            self = seconds < 0 ? -100_000_000_000_000 : 100_000_000_000_000
            return
        }
        self = seconds * 1_000 + (attoseconds + (attoseconds > 0 ? 999_999_999_999_999 : 0)) / 1_000_000_000_000_000
    }

    init(clamping date: Date) {
        self = Int64((Swift.max(-1e11, Swift.min(1e11, date.timeIntervalSince1970)) * 1_000).rounded())
    }
}

extension Date {
    init(milliseconds: Int64) { self.init(timeIntervalSince1970: Double(milliseconds) / 1_000) }
}
