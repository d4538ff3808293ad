// Rules for keys.

extension ParameterEncoding {
    /// How keys are written.
    ///
    /// The rule receives the complete key before percent-encoding: `parentKey[childKey][]`.
    public struct KeyEncoding: Sendable, Hashable {
        let rule: Rule<String, String>

        /// The keys unchanged; the default.
        public static let useDefaultKeys = custom { $0 }
        /// `oneTwoThree` becomes `one_two_three`, `userID[firstName]` becomes `user_id[first_name]`.
        ///
        /// A word begins at an upper-case letter after a lower-case one. It also begins at the last of several
        /// upper-case letters if a lower-case one follows: `myURLProperty` becomes `my_url_property`.
        public static let convertToSnakeCase = custom { $0.separatingWords(with: "_") }
        /// `oneTwoThree` becomes `one-two-three`.
        public static let convertToKebabCase = custom { $0.separatingWords(with: "-") }
        /// `oneTwoThree` becomes `OneTwoThree`.
        ///
        /// Only the first letter of the complete key changes.
        public static let capitalized = custom { $0.prefix(1).uppercased() + $0.dropFirst() }
        /// `oneTwoThree` becomes `ONETWOTHREE`.
        public static let uppercased = custom { $0.uppercased() }
        /// `oneTwoThree` becomes `onetwothree`.
        public static let lowercased = custom { $0.lowercased() }

        /// Your own rule, which receives the complete key.
        public static func custom(_ encode: @escaping @Sendable (_ key: String) -> String) -> Self {
            Self(rule: Rule(encode))
        }
    }
}

extension String {
    /// The key with its camel-case words in lower case, joined with a separator.
    ///
    /// Brackets and dots stay, and start a new word.
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
            // The last of several upper-case letters begins the next word.
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
