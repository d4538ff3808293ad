import Foundation

enum Figures {
    static func bytes(_ count: Int64) -> String {
        guard count >= 1_000 else { return "\(count) B" }
        var value = Double(count)
        var unit = ""
        for next in ["kB", "MB", "GB", "TB", "PB", "EB"] where value >= 999.95 || unit.isEmpty {
            value /= 1_000
            unit = next
        }
        return "\(decimal(value)) \(unit)"
    }

    static func rate(_ bytesPerSecond: Double) -> String {
        "\(bytes(Int64(min(max(0, bytesPerSecond), 1e18))))/s"
    }

    static func time(_ duration: Duration) -> String {
        let seconds = max(0, duration.inSeconds)
        if seconds < 0.0995 { return "\(Int((seconds * 1_000).rounded())) ms" }
        if seconds < 59.95 { return "\(decimal(seconds)) s" }
        let whole = Int(min(seconds.rounded(), 1e12))
        if whole < 3_600 { return "\(whole / 60) min \(twoDigits(whole % 60)) s" }
        return "\(whole / 3_600) h \(twoDigits(whole % 3_600 / 60)) min"
    }

    static func seconds(_ duration: Duration) -> String {
        duration.inSeconds < 59.95 ? "\(decimal(max(0, duration.inSeconds))) s" : time(duration)
    }

    /// The text has at most five columns.
    static func timeLeft(_ seconds: Double) -> String {
        guard seconds.isFinite, seconds < 359_999 else { return "> 99h" }
        // A measured rate is not exact, so 7.001 s counts as 7.
        let whole = Int(max(0, seconds - 0.01).rounded(.up))
        guard whole >= 3_600 else { return "\(whole / 60):\(twoDigits(whole % 60))" }
        let hours = whole / 3_600
        return hours < 10 ? "\(hours)h\(twoDigits(whole / 60 % 60))m" : "\(hours)h"
    }

    static func count(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }

    private static func decimal(_ value: Double) -> String {
        let tenths = Int64((value * 10).rounded())
        return "\(tenths / 10).\(tenths % 10)"
    }

    private static func twoDigits(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
}

extension Duration {
    var inSeconds: Double { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
}
