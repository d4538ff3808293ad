import Testing

@testable import ConvoyCommand

@Suite struct OptionTests {
    private static let usages: [(String, Character?, String, String, Bool)] = [
        ("-m, --max-time SEC", "m", "max-time", " SEC", false),
        ("--cache[=DIR]", nil, "cache", "[=DIR]", true),
        ("-E, --cert FILE[:PASSWORD]", "E", "cert", " FILE[:PASSWORD]", false),
        ("-H, --header 'K: V'", "H", "header", " 'K: V'", false),
        ("-#, --progress-bar", "#", "progress-bar", "", false),
    ]

    @Test(arguments: usages)
    func theUsageOfTheHelpIsRead(usage: String, short: Character?, name: String, value: String, isOptional: Bool) {
        let option = Option(usage, .general, "")
        #expect((option.short, option.name) == (short, name))
        #expect((option.valueUsage, option.isValueOptional) == (value, isOptional))
    }

    @Test func theTextOfTheHelpContinuesTheSummary() {
        #expect(Option("--a N", .general, "some", more: ", or none").detail == "some, or none")
        #expect(Option("--a N", .general, "some", detail: "another").detail == "another")
        #expect(Option.flag("--a", .general, "some").detail == "some")
    }
}
