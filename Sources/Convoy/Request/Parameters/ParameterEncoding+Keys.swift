// What becomes of keys.

extension ParameterEncoding {
    /// What becomes of keys.
    ///
    /// The rule is given the whole key as it will be sent, before it is percent-encoded: `parentKey[childKey][]`.
    public struct KeyEncoding: Sendable, Hashable {
        let rule: Rule<String, String>

        /// The keys as they are; the default.
        public static let useDefaultKeys = custom { $0 }
        /// `oneTwoThree` becomes `one_two_three`, `userID[firstName]` becomes `user_id[first_name]`.
        ///
        /// A word begins at a capital behind a small letter, and at the last of several capitals when a small letter
        /// follows: `myURLProperty` becomes `my_url_property`.
        public static let convertToSnakeCase = custom { $0.separatingWords(with: "_") }
        /// `oneTwoThree` becomes `one-two-three`.
        public static let convertToKebabCase = custom { $0.separatingWords(with: "-") }
        /// `oneTwoThree` becomes `OneTwoThree`; only the first letter of the whole key changes.
        public static let capitalized = custom { $0.prefix(1).uppercased() + $0.dropFirst() }
        /// `oneTwoThree` becomes `ONETWOTHREE`.
        public static let uppercased = custom { $0.uppercased() }
        /// `oneTwoThree` becomes `onetwothree`.
        public static let lowercased = custom { $0.lowercased() }

        /// A rule of yours, given the whole key.
        public static func custom(_ encode: @escaping @Sendable (_ key: String) -> String) -> Self {
            Self(rule: Rule(encode))
        }
    }
}

extension String {
    /// The words of a key in camel case, in small letters; behind brackets and dots they begin afresh.
    fileprivate func separatingWords(with separator: String) -> String {
        let scalars = Array(unicodeScalars)
        var result = ""
        var start = 0
        for end in scalars.indices where "[].".unicodeScalars.contains(scalars[end]) {
            result += scalars[start..<end].words.joined(separator: separator)
            result.unicodeScalars.append(scalars[end])
            start = end + 1
        }
        return result + scalars[start...].words.joined(separator: separator)
    }
}

extension ArraySlice<Unicode.Scalar> {
    fileprivate var words: [String] {
        var starts = [startIndex]
        var next = startIndex + 1
        while next < endIndex, let capital = self[next...].firstIndex(where: \.isCapital) {
            starts.append(capital)
            guard let small = self[capital...].firstIndex(where: \.isSmall) else { break }
            // Of several capitals the last begins the next word.
            if small > capital + 1 { starts.append(small - 1) }
            next = small + 1
        }
        return zip(starts, starts.dropFirst() + [endIndex]).map { start, end in
            String(String.UnicodeScalarView(self[start..<end])).lowercased()
        }
    }
}

extension Unicode.Scalar {
    fileprivate var isCapital: Bool {
        properties.generalCategory == .uppercaseLetter || properties.generalCategory == .titlecaseLetter
    }

    fileprivate var isSmall: Bool { properties.generalCategory == .lowercaseLetter }
}
