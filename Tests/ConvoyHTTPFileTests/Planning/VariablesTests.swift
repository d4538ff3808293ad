import Testing

@testable import ConvoyHTTPFile

/// Tests the sources of variables and their precedence.
@Suite struct VariablesTests {
    private func environments(_ texts: (json: String, isSecret: Bool)...) -> Environments {
        var environments = Environments()
        for (number, text) in texts.enumerated() {
            environments.add(Array(text.json.utf8), file: "\(number).json", isSecret: text.isSecret)
        }
        return environments
    }

    @Test func theEnvironmentOfRESTClientsPageIsReadAsThere() throws {
        let json = """
            { "$shared": { "version": "v1", "prodToken": "foo", "nonProdToken": "bar" },
              "local": { "version": "v2", "host": "localhost", "token": "{{$shared nonProdToken}}", "secretKey": "devSecret" },
              "production": { "host": "example.com", "token": "{{$shared prodToken}}", "secretKey" : "prodSecret" } }
            """
        let text =
            "GET https://{{host}}/api/{{version}}comments/1\nAuthorization: {{token}}\nX: {{$processEnv %secretKey}}"
        for (name, url, token) in [
            ("local", "https://localhost/api/v2comments/1", "bar"),
            ("production", "https://example.com/api/v1comments/1", "foo"),
        ] {
            let values = surroundings {
                $0.environments = environments((json, false))
                $0.environmentName = name
                $0.processEnvironment = ["devSecret": "dev", "prodSecret": "prod"]
            }
            let request = try #require(built(text, values).first)
            #expect(request.url == url)
            #expect(request.value(of: "Authorization") == token)
            #expect(request.value(of: "X") == (name == "local" ? "dev" : "prod"))
        }
    }

    @Test func aVariableMayExtendItsEarlierValue() throws {
        #expect(try built("@a = 1\n@a = {{a}}2\n@a = {{a}}3\nGET http://h/{{a}}").first?.url == "http://h/123")
        #expect(plan("@a = {{a}}2\nGET http://h/{{a}}").problems.map(\.what) == ["the variable ‘a’ has no value"])
    }

    @Test func aVariableMayExtendAValueOfTheEnvironment() throws {
        let values = surroundings {
            $0.environments = environments((#"{"dev":{"h":"example.com"}}"#, false))
            $0.environmentName = "dev"
        }
        #expect(try built("@h = {{h}}:80\nGET http://{{h}}/", values).first?.url == "http://example.com:80/")
    }

    @Test func environmentsMayHaveCommentsAndBeEmpty() throws {
        let json = """
            // {
            {"dev": {"h": "http://a//b", /* "h": "no", */ "q": "/*\\"//"}} // the end
            """
        let values = surroundings {
            $0.environments = environments(("", false), (" \n", true), (json, false))
            $0.environmentName = "dev"
        }
        #expect(values.environments.problems == [])
        #expect(try built("POST {{h}}\n\n{{q}}", values).map { $0.url + $0.bodyText } == ["http://a//b/*\"//"])
    }

    @Test func aMistakeInAnEnvironmentIsReportedWhereItIsUsed() {
        let json = #"{"dev":{"h":"{{two words}}","g":"x"},"other":{"h":"{{$nothing}}"}}"#
        var values = surroundings {
            $0.environments = environments((json, false))
            $0.environmentName = "dev"
        }
        #expect(plan("GET http://{{g}}/", values).problems == [])
        #expect(plan("GET http://{{h}}/", values).problems.count == 1)
        values.environmentName = "other"
        #expect(plan("GET http://{{h}}/", values).problems.map(\.file) == ["0.json"])
    }

    @Test func thePrivateFileCountsOverTheOther() throws {
        let values = surroundings {
            $0.environments = environments(
                (#"{"test":{"foo":"not bar","n":1,"o":{"p":true}}}"#, false), (#"{"test":{"foo":"bar"}}"#, true))
            $0.environmentName = "test"
        }
        #expect(try built("GET http://a/{{foo}}/{{n}}/{{o.p}}", values).first?.url == "http://a/bar/1/true")
        #expect(plan("GET http://a/{{foo}}", values).requests.first?.shownTarget == "http://a/{{foo}}")
    }

    @Test func theCommandLineCountsOverTheFileAndThatOverTheEnvironment() throws {
        var values = surroundings {
            $0.environments = environments((#"{"$shared":{"a":"shared","b":"shared","c":"shared"}}"#, false))
            $0.given = ["a": "given"]
        }
        let text = "@a = file\n@b = file\nGET http://h/{{a}}/{{b}}/{{c}}"
        #expect(try built(text, values).first?.url == "http://h/given/file/shared")
        values.given = [:]
        #expect(try built(text, values).first?.url == "http://h/file/file/shared")
    }

    @Test func theLastDefinitionBeforeTheUseCounts() throws {
        let text = "GET http://h/{{a}}\n###\n@a = 1\nGET http://h/{{a}}\n###\n@a = 2\nGET http://h/{{a}}"
        #expect(try built(text).map(\.url) == ["http://h/1", "http://h/1", "http://h/2"])
    }

    @Test func aVariableHasOneValueForTheWholeRun() throws {
        let requests = try built(
            "@id = {{$uuid}}\nGET http://h/{{id}}\n###\nGET http://h/{{id}}\n###\nGET http://h/{{$uuid}}")
        #expect(requests[0].url == requests[1].url)
        #expect(requests[1].url != requests[2].url)
    }

    @Test func theFileDotEnvIsReadAsShellsHaveIt() throws {
        let text = "# c\nexport A=1\nB = \"two\\nlines\" # x\nC='it''s'\nD=plain # x\nE=\nF=a#b\n"
        #expect(
            DotEnvironment.read(text) == ["A": "1", "B": "two\nlines", "C": "it", "D": "plain", "E": "", "F": "a#b"])
        let values = surroundings {
            $0.dotEnvironment = ["USERNAME": "ada"]
            $0.given = ["who": "USERNAME"]
        }
        #expect(
            try built("GET http://h/{{$dotenv USERNAME}}/{{$dotenv %who}}", values).first?.url == "http://h/ada/ada")
    }

    @Test func secretsAreShownAsTheyAreWritten() {
        let values = surroundings {
            $0.given = ["token": "s3cret", "host": "h"]
            $0.processEnvironment = ["X": "s3cret"]
            $0.dotEnvironment = ["X": "s3cret"]
        }
        let text =
            "@key = {{token}}\n@plain = {{$processEnv X}}\nGET http://{{host}}/{{token}}/{{key}}/{{plain}}/{{$dotenv X}}"
        #expect(
            plan(text, values).requests.first?.shownTarget
                == "http://h/{{token}}/{{key}}/{{$processEnv X}}/{{$dotenv X}}")
    }

    @Test func valuesAreNeverReadAsTemplates() throws {
        let values = surroundings {
            $0.given = ["a": "{{$processEnv X}}"]
            $0.processEnvironment = ["X": "s3cret"]
        }
        #expect(try built("POST http://h/\n\n{{a}}", values).first?.bodyText == "{{$processEnv X}}")
    }

    @Test(arguments: [
        ("keyword", false), ("monkey", false), ("author", false), ("compass", false), ("pinned", false), ("key", true),
        ("apiKey", true), ("X-Api-Key", true), ("token", true), ("client_secret", true), ("auth", true), ("pass", true),
        ("db_pass", true), ("signingKey", true), ("stripekey", true), ("X-Auth", true), ("X-Auth-Info", true),
        ("basicAuth", true), ("totp", true), ("passage", false),
        // A short word such as `pwd` or `pin` means a secret only as a complete word of a name.
        ("MYSQL_PWD", true), ("db_pwd", true), ("user_pin", true), ("id_jwt", true), ("api_sig", true), ("sid_2", true),
        ("passcode", true), ("aws_creds", true), ("signing_keys", true), ("keys", true), ("OTPCode", true),
        ("auth_code", true), ("authHeader", true), ("MYAPIKey", true), ("country_code", false), ("spin", false),
        ("sacred", false), ("headers", false), ("code_2", false),
        // Further words may follow the word that means a secret.
        ("STRIPE_KEY_LIVE", true), ("MAILGUN_KEY_EU", true), ("stripeKeyTest", true), ("X-Stripe-Key-Test", true),
        ("db_pass_prod", true), ("DB_PASS_FILE", true), ("AUTH_V2", true), ("auth_b64", true), ("X-Auth-Basic", true),
        ("signing_key_pem", true), ("SIGNING_KEY_BASE64", true), ("otp_seed", true), ("sort_key_pass", true),
        // A following word such as `url`, `id` or `size` only describes a secret. Terms such as `sort_key` and other
        // words such as `whiskey` are no secrets.
        ("auth_url", false), ("passCount", false), ("key_id", false), ("KEYWord", false), ("key_ids", false),
        ("oauth_client_id", false), ("key_name_2", false), ("auth_type", false), ("pass_size", false),
        ("Idempotency-Key", false), ("Surrogate-Key", false), ("sort_key", false), ("primaryKey", false),
        ("sort_key_column", false), ("foreignkeys", false), ("whiskey", false), ("jockeys", false), ("trespass", false),
        ("overpass", false),
    ]) func aNameOfASecretIsRecognisedAsByTheLibrary(name: String, isSecret: Bool) throws {
        let planned = plan("@\(name) = hidden\nGET http://h/?\(name)=hidden&a={{\(name)}}")
        let shown = try #require(planned.requests.first?.shownTarget)
        #expect(shown.contains("hidden") == !isSecret, "\(shown)")
    }
}
