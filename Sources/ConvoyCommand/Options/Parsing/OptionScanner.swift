// Splits a command line into options and operands.

/// A parsed command line.
struct ScannedArguments {
    var given: [(option: Option, value: String)] = []
    var operands: [String] = []

    /// Adds an option, or the value of `--url` as an operand.
    mutating func add(_ option: Option, _ value: String) {
        if option == .url { operands.append(value) } else { given.append((option, value)) }
    }

    func has(_ option: Option) -> Bool { given.contains { $0.option == option } }
    func values(of option: Option) -> [String] { given.filter { $0.option == option }.map(\.value) }
    /// The last value of an option, because a later option overrides an earlier one.
    func value(of option: Option) -> String? { values(of: option).last }
}

/// Parses a command line like getopt: `--name value`, `--name=value`, `-n value`, `-nvalue`, and `--` ends options.
///
/// Options and operands may be mixed. A value may start with a dash.
struct OptionScanner {
    let options: [Option]
    /// Advice for other programs' options, by their spelling.
    var habits: [String: String] = [:]

    func scan(_ arguments: [String]) throws(UsageError) -> ScannedArguments {
        var scanned = ScannedArguments()
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            if argument == "--" {
                scanned.operands += rest
                break
            } else if argument.hasPrefix("--") {
                try scanLong(argument.dropFirst(2), &rest, &scanned)
            } else if argument.hasPrefix("-"), argument != "-" {
                try scanShort(argument.dropFirst(), &rest, &scanned)
            } else {
                scanned.operands.append(argument)
            }
        }
        return scanned
    }

    private func scanLong(
        _ argument: Substring, _ rest: inout ArraySlice<String>, _ scanned: inout ScannedArguments
    ) throws(UsageError) {
        let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let name = parts[0]
        guard let option = options.first(where: { $0.name == name || $0.aliases.contains(String(name)) }) else {
            throw unknown("--\(name)")
        }
        if option.takesValue {
            guard parts.count == 2 || !option.isValueOptional else { return scanned.given.append((option, "")) }
            let value = parts.count == 2 ? String(parts[1]) : rest.popFirst()
            try scanned.add(option, checked(value, of: option, "--\(name)"))
        } else {
            guard parts.count == 1 else {
                throw UsageError("the option --\(name) takes no value: remove the = and the text after it")
            }
            scanned.given.append((option, ""))
        }
    }

    private func scanShort(
        _ argument: Substring, _ rest: inout ArraySlice<String>, _ scanned: inout ScannedArguments
    ) throws(UsageError) {
        // wget has short options of two letters, such as `-nc`.
        guard argument.count != 2 || habits["-\(argument)"] == nil else { throw unknown("-\(argument)") }
        var letters = argument
        while let letter = letters.popFirst() {
            guard let option = options.first(where: { $0.short == letter }) else {
                // aria2 has numbers directly after `-s`; the advice about them has the key `-sN`.
                let numbered = argument.first.map { "-\($0)N" } ?? ""
                throw unknown(letter.isNumber && habits[numbered] != nil ? numbered : "-\(letter)")
            }
            guard option.takesValue else {
                scanned.given.append((option, ""))
                continue
            }
            let value = letters.isEmpty ? rest.popFirst() : String(letters)
            try scanned.add(option, checked(value, of: option, "-\(letter)"))
            return
        }
    }

    private func unknown(_ spelling: String) -> UsageError {
        var message = "unknown option \(spelling)"
        if let habit = habits[spelling] {
            message += ": \(habit)"
        } else if spelling.hasPrefix("--"), let name = options.map(\.name).nearest(to: spelling.dropFirst(2)) {
            message += "; did you mean --\(name)?"
        }
        return UsageError(message)
    }

    private func checked(_ value: String?, of option: Option, _ name: String) throws(UsageError) -> String {
        guard let value, option.mayBeEmpty || !value.isEmpty else {
            throw UsageError("the option \(name) needs a value: \(name) \(option.valueWord)")
        }
        return value
    }
}
