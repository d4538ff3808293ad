import Testing

@testable import ConvoyCommand

@Suite struct URLGlobTests {
    @Test(arguments: [
        ("http://h/a", ["http://h/a"]), ("http://h/{a,b}", ["http://h/a", "http://h/b"]),
        ("http://h/{a}", ["http://h/a"]), ("http://h/{a,}", ["http://h/a", "http://h/"]),
        ("http://h/[9-11]", ["http://h/9", "http://h/10", "http://h/11"]),
        ("http://h/[009-011:2]", ["http://h/009", "http://h/011"]),
        ("http://h/[a-c]", ["http://h/a", "http://h/b", "http://h/c"]),
        ("http://h/{a,b}[1-2]", ["http://h/a1", "http://h/a2", "http://h/b1", "http://h/b2"]),
        ("http://[::1]/a", ["http://[::1]/a"]), ("http://h/?page[size]=1", ["http://h/?page[size]=1"]),
        ("http://h/\\{a\\}", ["http://h/{a}"]), ("http://h/{a", ["http://h/{a"]),
    ])
    func aPatternMatchesSeveralURLs(pattern: String, urls: [String]) throws {
        #expect(try URLGlob(pattern).matches.map(\.url) == urls)
    }

    @Test(arguments: [
        ("#1.txt", "a.txt"), ("#2_#1", "07_a"), ("#3", "#3"), ("#", "#"), ("#0#x", "#0#x"), ("a#1#1", "aaa"),
    ])
    func aNameUsesTheValuesOfThePatterns(template: String, name: String) throws {
        let match = try #require(try URLGlob("http://h/{a,b}/[07-09]").matches.first)
        #expect(match.name(template) == name)
    }

    @Test(arguments: [
        "http://h/[5-1]", "http://h/[1-5:0]", "http://h/[1-99999999999999999999]", "http://h/[1-9999][1-9999]",
        "http://h/[0-1000000]",
    ])
    func anUnclosedPatternIsRefused(pattern: String) {
        #expect(throws: UsageError.self) { try URLGlob(pattern) }
    }

    @Test(arguments: [
        ("[5-1]", "is not a range"), ("[1-99999999999]", "more than a million"),
        ("[1-9999999999999999999]", "more than a million"),
    ])
    func aRefusedRangeIsNamed(pattern: String, words: String) {
        let error = #expect(throws: UsageError.self) { try URLGlob("http://h/" + pattern) }
        #expect(error?.message.contains(words) == true)
    }
}
