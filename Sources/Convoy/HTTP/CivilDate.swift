// Days of the calendar, for dates in header fields and cookies.

/// A day of the proleptic Gregorian calendar, which also covers days before the calendar's introduction.
struct CivilDate {
    let year: Int
    /// The month, from 1 for January.
    let month: Int
    let day: Int

    /// The days since 1 January 1970; nil when the date does not exist.
    var daysSince1970: Int? {
        guard (1...12).contains(month), (1...daysOfMonth).contains(day) else { return nil }
        // The years are counted from March. The leap day is then the last day, and the lengths of the months before
        // it follow a formula.
        let years = year - (month <= 2 ? 1 : 0) + 400
        let months = (month + 9) % 12
        let leapDays = years / 4 - years / 100 + years / 400
        // 719468 days lie between 1 March of the year 0 and 1 January 1970. `years` has 400 years more, so that it is
        // never negative. The 400 years have 146097 days.
        return years * 365 + leapDays + (months * 153 + 2) / 5 + day - 1 - 719_468 - 146_097
    }

    private var isLeapYear: Bool { year.isMultiple(of: 4) && (!year.isMultiple(of: 100) || year.isMultiple(of: 400)) }

    private var daysOfMonth: Int {
        switch month {
        case 2: isLeapYear ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }
}
