import ConvoyHTTPFile
import Testing

/// Tests the sources of variables and their precedence.
@Suite struct VariablesTests {
    private func environments(_ texts: (json: String, isSecret: Bool)...) -> Environments {
        var environments = Environments()
        for (number, text) in texts.enumerated() {
            environments.add(Array(text.json.utf8), file: "\(number).json", isSecret: text.isSecret)
        }
        return environments
    }

    @Test func anEnvironmentExtendsTheSharedOne() throws {
        let json = """
            { "$shared": { "version": "v1", "a": "foo", "b": "bar" },
              "local": { "version": "v2", "token": "{{$shared b}}", "key": "K" }, "live": { "token": "{{$shared a}}" } }
            """
        for (name, url) in [("local", "http://h/v2/bar"), ("live", "http://h/v1/foo")] {
            let values = surroundings {
                ($0.environments, $0.environmentName) = (environments((json, false)), name)
                $0.processEnvironment = ["K": "dev"]
            }
            #expect(try built("GET http://h/{{version}}/{{token}}", values).map(\.url) == [url])
            guard name == "local" else { continue }
            #expect(try built("GET http://h/{{$processEnv %key}}", values).map(\.url) == ["http://h/dev"])
        }
    }

    /// The command line counts over the file, the file over the environment, and a private environment over the other.
    @Test(arguments: [
        ("@a = 1\n@a = {{a}}2\n@a = {{a}}3\nGET http://h/{{a}}", ["http://h/123"]),
        ("@h = {{h}}:80\nGET http://{{h}}/", ["http://example.com:80/"]),
        ("GET http://a/{{foo}}/{{n}}/{{o.p}}", ["http://a/bar/1/true"]),
        ("@given = file\n@inAll = file\nGET http://h/{{given}}/{{inAll}}/{{n}}", ["http://h/command/file/1"]),
        (
            "GET http://h/{{a}}\n###\n@a = 1\nGET http://h/{{a}}\n###\n@a = 2\nGET http://h/{{a}}",
            ["http://h/1", "http://h/1", "http://h/2"]
        ),
    ]) func theNearestDefinitionCounts(text: String, urls: [String]) throws {
        let values = surroundings {
            $0.environments = environments(
                (#"{"test":{"foo":"not bar","h":"example.com","n":1,"o":{"p":true}}}"#, false),
                (#"{"test":{"foo":"bar"},"$shared":{"given":"shared","inAll":"shared","n":2}}"#, true))
            ($0.environmentName, $0.given) = ("test", ["given": "command"])
        }
        #expect(try built(text, values).map(\.url) == urls)
        #expect(plan("GET http://a/{{foo}}", values).requests.first?.shownTarget == "http://a/{{foo}}")
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

    /// Beside the names that the library's own test has.
    @Test(arguments: [
        (
            """
            token auth pass signingKey stripekey X-Auth basicAuth totp MYSQL_PWD db_pwd user_pin id_jwt \
            api_sig sid_2 passcode signing_keys keys OTPCode auth_code authHeader MYAPIKey MAILGUN_KEY_EU \
            stripeKeyTest X-Stripe-Key-Test db_pass_prod DB_PASS_FILE AUTH_V2 auth_b64 X-Auth-Basic \
            signing_key_pem SIGNING_KEY_BASE64 otp_seed sort_key_pass
            """, true
        ),
        (
            """
            compass pinned spin sacred headers code_2 auth_url passCount KEYWord key_ids oauth_client_id \
            key_name_2 auth_type pass_size primaryKey sort_key_column foreignkeys whiskey jockeys trespass \
            overpass
            """, false
        ),
    ]) func aNameOfASecretIsRecognisedAsByTheLibrary(names: String, isSecret: Bool) throws {
        for name in names.split(separator: " ") {
            let planned = plan("@\(name) = hidden\nGET http://h/?\(name)=hidden&a={{\(name)}}")
            let shown = try #require(planned.requests.first?.shownTarget)
            #expect(shown.contains("hidden") == !isSecret, "\(shown)")
        }
    }
}
