// The output of Alamofire 5.12.0 for one value under many combinations of options.
import Convoy

extension AlamofireCase {
    /// The combinations contain every pair of values of two options.
    static let pairs: [Self] = [
        Self(
            everything,
            .init(
                alphabetizeKeyValuePairs: false, boolEncoding: .literal, keyEncoding: .uppercased,
                nilEncoding: .dropValue),
            """
            USERNAME=Ann%20Lee&ISACTIVE=true&RAW=Afo%3D&BORNAT=123.456&NICKNAME=&TAGLIST%5B%5D=a%20b&\
            TAGLIST%5B%5D=c&INNERVALUE%5BDEEPLIST%5D%5B%5D%5B%5D=x%20y&INNERVALUE%5BDEEPLIST%5D%5B%5D%5B%5D=z&\
            INNERVALUE%5BISDEEP%5D=false&INNERVALUE%5BPAIRS%5D%5B%5D%5BAB%5D=1&\
            INNERVALUE%5BPAIRS%5D%5B%5D%5BAB%5D=2
            """),
        Self(
            everything,
            .init(
                alphabetizeKeyValuePairs: false, arrayEncoding: .noBrackets, dataEncoding: .deferredToData,
                dateEncoding: .secondsSince1970, keyEncoding: .lowercased, keyPathEncoding: .dots, nilEncoding: .null,
                spaceEncoding: .plusReplaced),
            """
            username=Ann+Lee&isactive=1&raw=1&raw=250&bornat=978307323.456&nickname=null&taglist=a+b&taglist=c&\
            innervalue.deeplist=x+y&innervalue.deeplist=z&innervalue.isdeep=0&innervalue.pairs.ab=1&\
            innervalue.pairs.ab=2
            """),
        Self(
            everything,
            .init(
                arrayEncoding: .indexInBrackets, dateEncoding: .millisecondsSince1970, keyEncoding: .convertToKebabCase,
                spaceEncoding: .plusReplaced),
            """
            born-at=978307323456.0&inner-value%5Bdeep-list%5D%5B0%5D%5B0%5D=x+y&\
            inner-value%5Bdeep-list%5D%5B1%5D%5B0%5D=z&inner-value%5Bis-deep%5D=0&\
            inner-value%5Bpairs%5D%5B0%5D%5Ba-b%5D=1&inner-value%5Bpairs%5D%5B1%5D%5Ba-b%5D=2&is-active=1&\
            raw=Afo%3D&tag-list%5B0%5D=a+b&tag-list%5B1%5D=c&user-name=Ann+Lee
            """),
        Self(
            everything,
            .init(
                arrayEncoding: .indexInBrackets, boolEncoding: .literal, dataEncoding: .deferredToData,
                dateEncoding: .iso8601, keyEncoding: .capitalized, keyPathEncoding: .dots, nilEncoding: .dropValue),
            """
            BornAt=2001-01-01T00%3A02%3A03Z&InnerValue.deepList%5B0%5D%5B0%5D=x%20y&\
            InnerValue.deepList%5B1%5D%5B0%5D=z&InnerValue.isDeep=false&InnerValue.pairs%5B0%5D.aB=1&\
            InnerValue.pairs%5B1%5D.aB=2&IsActive=true&NickName=&Raw%5B0%5D=1&Raw%5B1%5D=250&\
            TagList%5B0%5D=a%20b&TagList%5B1%5D=c&UserName=Ann%20Lee
            """),
        Self(
            everything,
            .init(
                alphabetizeKeyValuePairs: false, dataEncoding: .deferredToData, dateEncoding: .millisecondsSince1970,
                keyPathEncoding: .dots),
            """
            userName=Ann%20Lee&isActive=1&raw%5B%5D=1&raw%5B%5D=250&bornAt=978307323456.0&tagList%5B%5D=a%20b&\
            tagList%5B%5D=c&innerValue.deepList%5B%5D%5B%5D=x%20y&innerValue.deepList%5B%5D%5B%5D=z&\
            innerValue.isDeep=0&innerValue.pairs%5B%5D.aB=1&innerValue.pairs%5B%5D.aB=2
            """),
        Self(
            everything,
            .init(
                arrayEncoding: .noBrackets, boolEncoding: .literal, dateEncoding: .secondsSince1970,
                keyEncoding: .convertToSnakeCase, nilEncoding: .null),
            """
            born_at=978307323.456&inner_value%5Bdeep_list%5D=x%20y&inner_value%5Bdeep_list%5D=z&\
            inner_value%5Bis_deep%5D=false&inner_value%5Bpairs%5D%5Ba_b%5D=1&inner_value%5Bpairs%5D%5Ba_b%5D=2&\
            is_active=true&nick_name=null&raw=Afo%3D&tag_list=a%20b&tag_list=c&user_name=Ann%20Lee
            """),
        Self(
            everything,
            .init(
                alphabetizeKeyValuePairs: false, dataEncoding: .deferredToData, dateEncoding: .iso8601,
                keyEncoding: .convertToSnakeCase, nilEncoding: .dropValue, spaceEncoding: .plusReplaced),
            """
            user_name=Ann+Lee&is_active=1&raw%5B%5D=1&raw%5B%5D=250&born_at=2001-01-01T00%3A02%3A03Z&nick_name=&\
            tag_list%5B%5D=a+b&tag_list%5B%5D=c&inner_value%5Bdeep_list%5D%5B%5D%5B%5D=x+y&\
            inner_value%5Bdeep_list%5D%5B%5D%5B%5D=z&inner_value%5Bis_deep%5D=0&\
            inner_value%5Bpairs%5D%5B%5D%5Ba_b%5D=1&inner_value%5Bpairs%5D%5B%5D%5Ba_b%5D=2
            """),
        Self(
            everything,
            .init(
                arrayEncoding: .noBrackets, boolEncoding: .literal, keyEncoding: .capitalized, keyPathEncoding: .dots,
                spaceEncoding: .plusReplaced),
            """
            BornAt=123.456&InnerValue.deepList=x+y&InnerValue.deepList=z&InnerValue.isDeep=false&\
            InnerValue.pairs.aB=1&InnerValue.pairs.aB=2&IsActive=true&Raw=Afo%3D&TagList=a+b&TagList=c&\
            UserName=Ann+Lee
            """),
        Self(
            everything,
            .init(
                arrayEncoding: .indexInBrackets, dataEncoding: .deferredToData, keyEncoding: .uppercased,
                keyPathEncoding: .dots, nilEncoding: .null, spaceEncoding: .plusReplaced),
            """
            BORNAT=123.456&INNERVALUE.DEEPLIST%5B0%5D%5B0%5D=x+y&INNERVALUE.DEEPLIST%5B1%5D%5B0%5D=z&\
            INNERVALUE.ISDEEP=0&INNERVALUE.PAIRS%5B0%5D.AB=1&INNERVALUE.PAIRS%5B1%5D.AB=2&ISACTIVE=1&\
            NICKNAME=null&RAW%5B0%5D=1&RAW%5B1%5D=250&TAGLIST%5B0%5D=a+b&TAGLIST%5B1%5D=c&USERNAME=Ann+Lee
            """),
        Self(
            everything, .init(boolEncoding: .literal, dateEncoding: .iso8601, keyEncoding: .lowercased),
            """
            bornat=2001-01-01T00%3A02%3A03Z&innervalue%5Bdeeplist%5D%5B%5D%5B%5D=x%20y&\
            innervalue%5Bdeeplist%5D%5B%5D%5B%5D=z&innervalue%5Bisdeep%5D=false&\
            innervalue%5Bpairs%5D%5B%5D%5Bab%5D=1&innervalue%5Bpairs%5D%5B%5D%5Bab%5D=2&isactive=true&\
            raw=Afo%3D&taglist%5B%5D=a%20b&taglist%5B%5D=c&username=Ann%20Lee
            """),
        Self(
            everything,
            .init(
                arrayEncoding: .noBrackets, boolEncoding: .literal, dateEncoding: .millisecondsSince1970,
                nilEncoding: .dropValue, spaceEncoding: .plusReplaced),
            """
            bornAt=978307323456.0&innerValue%5BdeepList%5D=x+y&innerValue%5BdeepList%5D=z&\
            innerValue%5BisDeep%5D=false&innerValue%5Bpairs%5D%5BaB%5D=1&innerValue%5Bpairs%5D%5BaB%5D=2&\
            isActive=true&nickName=&raw=Afo%3D&tagList=a+b&tagList=c&userName=Ann+Lee
            """),
        Self(
            everything,
            .init(
                alphabetizeKeyValuePairs: false, boolEncoding: .literal, dataEncoding: .deferredToData,
                dateEncoding: .secondsSince1970, keyEncoding: .convertToKebabCase, keyPathEncoding: .dots,
                nilEncoding: .dropValue),
            """
            user-name=Ann%20Lee&is-active=true&raw%5B%5D=1&raw%5B%5D=250&born-at=978307323.456&nick-name=&\
            tag-list%5B%5D=a%20b&tag-list%5B%5D=c&inner-value.deep-list%5B%5D%5B%5D=x%20y&\
            inner-value.deep-list%5B%5D%5B%5D=z&inner-value.is-deep=false&inner-value.pairs%5B%5D.a-b=1&\
            inner-value.pairs%5B%5D.a-b=2
            """),
        Self(
            everything,
            .init(
                alphabetizeKeyValuePairs: false, dataEncoding: .deferredToData, dateEncoding: .millisecondsSince1970,
                keyEncoding: .capitalized, nilEncoding: .null, spaceEncoding: .plusReplaced),
            """
            UserName=Ann+Lee&IsActive=1&Raw%5B%5D=1&Raw%5B%5D=250&BornAt=978307323456.0&NickName=null&\
            TagList%5B%5D=a+b&TagList%5B%5D=c&InnerValue%5BdeepList%5D%5B%5D%5B%5D=x+y&\
            InnerValue%5BdeepList%5D%5B%5D%5B%5D=z&InnerValue%5BisDeep%5D=0&\
            InnerValue%5Bpairs%5D%5B%5D%5BaB%5D=1&InnerValue%5Bpairs%5D%5B%5D%5BaB%5D=2
            """),
        Self(
            everything,
            .init(
                alphabetizeKeyValuePairs: false, arrayEncoding: .indexInBrackets, boolEncoding: .literal,
                dataEncoding: .deferredToData, dateEncoding: .secondsSince1970, keyEncoding: .convertToSnakeCase,
                keyPathEncoding: .dots),
            """
            user_name=Ann%20Lee&is_active=true&raw%5B0%5D=1&raw%5B1%5D=250&born_at=978307323.456&\
            tag_list%5B0%5D=a%20b&tag_list%5B1%5D=c&inner_value.deep_list%5B0%5D%5B0%5D=x%20y&\
            inner_value.deep_list%5B1%5D%5B0%5D=z&inner_value.is_deep=false&inner_value.pairs%5B0%5D.a_b=1&\
            inner_value.pairs%5B1%5D.a_b=2
            """),
        Self(
            everything,
            .init(
                alphabetizeKeyValuePairs: false, arrayEncoding: .noBrackets, boolEncoding: .literal,
                dateEncoding: .iso8601, keyEncoding: .convertToKebabCase, keyPathEncoding: .dots, nilEncoding: .null),
            """
            user-name=Ann%20Lee&is-active=true&raw=Afo%3D&born-at=2001-01-01T00%3A02%3A03Z&nick-name=null&\
            tag-list=a%20b&tag-list=c&inner-value.deep-list=x%20y&inner-value.deep-list=z&\
            inner-value.is-deep=false&inner-value.pairs.a-b=1&inner-value.pairs.a-b=2
            """),
        Self(
            everything, .init(arrayEncoding: .indexInBrackets, nilEncoding: .null),
            """
            bornAt=123.456&innerValue%5BdeepList%5D%5B0%5D%5B0%5D=x%20y&\
            innerValue%5BdeepList%5D%5B1%5D%5B0%5D=z&innerValue%5BisDeep%5D=0&\
            innerValue%5Bpairs%5D%5B0%5D%5BaB%5D=1&innerValue%5Bpairs%5D%5B1%5D%5BaB%5D=2&isActive=1&\
            nickName=null&raw=Afo%3D&tagList%5B0%5D=a%20b&tagList%5B1%5D=c&userName=Ann%20Lee
            """),
        Self(
            everything,
            .init(
                alphabetizeKeyValuePairs: false, arrayEncoding: .noBrackets, dateEncoding: .iso8601,
                keyEncoding: .uppercased, spaceEncoding: .plusReplaced),
            """
            USERNAME=Ann+Lee&ISACTIVE=1&RAW=Afo%3D&BORNAT=2001-01-01T00%3A02%3A03Z&TAGLIST=a+b&TAGLIST=c&\
            INNERVALUE%5BDEEPLIST%5D=x+y&INNERVALUE%5BDEEPLIST%5D=z&INNERVALUE%5BISDEEP%5D=0&\
            INNERVALUE%5BPAIRS%5D%5BAB%5D=1&INNERVALUE%5BPAIRS%5D%5BAB%5D=2
            """),
        Self(
            everything,
            .init(
                alphabetizeKeyValuePairs: false, arrayEncoding: .indexInBrackets, boolEncoding: .literal,
                dataEncoding: .deferredToData, dateEncoding: .millisecondsSince1970, keyEncoding: .lowercased,
                nilEncoding: .dropValue, spaceEncoding: .plusReplaced),
            """
            username=Ann+Lee&isactive=true&raw%5B0%5D=1&raw%5B1%5D=250&bornat=978307323456.0&nickname=&\
            taglist%5B0%5D=a+b&taglist%5B1%5D=c&innervalue%5Bdeeplist%5D%5B0%5D%5B0%5D=x+y&\
            innervalue%5Bdeeplist%5D%5B1%5D%5B0%5D=z&innervalue%5Bisdeep%5D=false&\
            innervalue%5Bpairs%5D%5B0%5D%5Bab%5D=1&innervalue%5Bpairs%5D%5B1%5D%5Bab%5D=2
            """),
        Self(
            everything,
            .init(
                alphabetizeKeyValuePairs: false, arrayEncoding: .noBrackets, boolEncoding: .literal,
                dateEncoding: .secondsSince1970, keyEncoding: .uppercased, keyPathEncoding: .dots,
                spaceEncoding: .plusReplaced),
            """
            USERNAME=Ann+Lee&ISACTIVE=true&RAW=Afo%3D&BORNAT=978307323.456&TAGLIST=a+b&TAGLIST=c&\
            INNERVALUE.DEEPLIST=x+y&INNERVALUE.DEEPLIST=z&INNERVALUE.ISDEEP=false&INNERVALUE.PAIRS.AB=1&\
            INNERVALUE.PAIRS.AB=2
            """),
        Self(
            everything,
            .init(
                arrayEncoding: .noBrackets, dataEncoding: .deferredToData, dateEncoding: .iso8601, nilEncoding: .null),
            """
            bornAt=2001-01-01T00%3A02%3A03Z&innerValue%5BdeepList%5D=x%20y&innerValue%5BdeepList%5D=z&\
            innerValue%5BisDeep%5D=0&innerValue%5Bpairs%5D%5BaB%5D=1&innerValue%5Bpairs%5D%5BaB%5D=2&isActive=1&\
            nickName=null&raw=1&raw=250&tagList=a%20b&tagList=c&userName=Ann%20Lee
            """),
        Self(
            everything,
            .init(
                arrayEncoding: .noBrackets, boolEncoding: .literal, dataEncoding: .deferredToData,
                dateEncoding: .millisecondsSince1970, keyEncoding: .convertToSnakeCase, spaceEncoding: .plusReplaced),
            """
            born_at=978307323456.0&inner_value%5Bdeep_list%5D=x+y&inner_value%5Bdeep_list%5D=z&\
            inner_value%5Bis_deep%5D=false&inner_value%5Bpairs%5D%5Ba_b%5D=1&inner_value%5Bpairs%5D%5Ba_b%5D=2&\
            is_active=true&raw=1&raw=250&tag_list=a+b&tag_list=c&user_name=Ann+Lee
            """),
        Self(
            everything,
            .init(
                arrayEncoding: .noBrackets, boolEncoding: .literal, keyEncoding: .convertToKebabCase, nilEncoding: .null
            ),
            """
            born-at=123.456&inner-value%5Bdeep-list%5D=x%20y&inner-value%5Bdeep-list%5D=z&\
            inner-value%5Bis-deep%5D=false&inner-value%5Bpairs%5D%5Ba-b%5D=1&inner-value%5Bpairs%5D%5Ba-b%5D=2&\
            is-active=true&nick-name=null&raw=Afo%3D&tag-list=a%20b&tag-list=c&user-name=Ann%20Lee
            """),
        Self(
            everything,
            .init(
                arrayEncoding: .indexInBrackets, boolEncoding: .literal, dateEncoding: .secondsSince1970,
                keyEncoding: .capitalized, nilEncoding: .dropValue),
            """
            BornAt=978307323.456&InnerValue%5BdeepList%5D%5B0%5D%5B0%5D=x%20y&\
            InnerValue%5BdeepList%5D%5B1%5D%5B0%5D=z&InnerValue%5BisDeep%5D=false&\
            InnerValue%5Bpairs%5D%5B0%5D%5BaB%5D=1&InnerValue%5Bpairs%5D%5B1%5D%5BaB%5D=2&IsActive=true&\
            NickName=&Raw=Afo%3D&TagList%5B0%5D=a%20b&TagList%5B1%5D=c&UserName=Ann%20Lee
            """),
        Self(
            everything,
            .init(
                alphabetizeKeyValuePairs: false, arrayEncoding: .indexInBrackets, dateEncoding: .millisecondsSince1970,
                keyEncoding: .uppercased, keyPathEncoding: .dots, nilEncoding: .null),
            """
            USERNAME=Ann%20Lee&ISACTIVE=1&RAW=Afo%3D&BORNAT=978307323456.0&NICKNAME=null&TAGLIST%5B0%5D=a%20b&\
            TAGLIST%5B1%5D=c&INNERVALUE.DEEPLIST%5B0%5D%5B0%5D=x%20y&INNERVALUE.DEEPLIST%5B1%5D%5B0%5D=z&\
            INNERVALUE.ISDEEP=0&INNERVALUE.PAIRS%5B0%5D.AB=1&INNERVALUE.PAIRS%5B1%5D.AB=2
            """),
        Self(
            everything,
            .init(
                arrayEncoding: .indexInBrackets, boolEncoding: .literal, dateEncoding: .secondsSince1970,
                nilEncoding: .null, spaceEncoding: .plusReplaced),
            """
            bornAt=978307323.456&innerValue%5BdeepList%5D%5B0%5D%5B0%5D=x+y&\
            innerValue%5BdeepList%5D%5B1%5D%5B0%5D=z&innerValue%5BisDeep%5D=false&\
            innerValue%5Bpairs%5D%5B0%5D%5BaB%5D=1&innerValue%5Bpairs%5D%5B1%5D%5BaB%5D=2&isActive=true&\
            nickName=null&raw=Afo%3D&tagList%5B0%5D=a+b&tagList%5B1%5D=c&userName=Ann+Lee
            """),
        Self(
            everything,
            .init(
                alphabetizeKeyValuePairs: false, dataEncoding: .deferredToData, keyEncoding: .lowercased,
                keyPathEncoding: .dots, nilEncoding: .null, spaceEncoding: .plusReplaced),
            """
            username=Ann+Lee&isactive=1&raw%5B%5D=1&raw%5B%5D=250&bornat=123.456&nickname=null&\
            taglist%5B%5D=a+b&taglist%5B%5D=c&innervalue.deeplist%5B%5D%5B%5D=x+y&\
            innervalue.deeplist%5B%5D%5B%5D=z&innervalue.isdeep=0&innervalue.pairs%5B%5D.ab=1&\
            innervalue.pairs%5B%5D.ab=2
            """),
        Self(
            everything, .init(boolEncoding: .literal, keyEncoding: .convertToSnakeCase, nilEncoding: .null),
            """
            born_at=123.456&inner_value%5Bdeep_list%5D%5B%5D%5B%5D=x%20y&\
            inner_value%5Bdeep_list%5D%5B%5D%5B%5D=z&inner_value%5Bis_deep%5D=false&\
            inner_value%5Bpairs%5D%5B%5D%5Ba_b%5D=1&inner_value%5Bpairs%5D%5B%5D%5Ba_b%5D=2&is_active=true&\
            nick_name=null&raw=Afo%3D&tag_list%5B%5D=a%20b&tag_list%5B%5D=c&user_name=Ann%20Lee
            """),
    ]
}
