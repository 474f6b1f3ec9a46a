//! What a client sent: the body of a frame to a message.
//!
//! Pure, and total: every body gives a message or says what is wrong with it. The library's own decoders trust the
//! counts inside a body, which is good enough for friends; this port is open to scanners.

/// A message of a client that has begun to speak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Query(String),
    Parse(Parse),
    Bind(Bind),
    Describe(Target),
    /// Rows at most; 0 is all.
    Execute {
        portal: String,
        most: u32,
    },
    Close(Target),
    Flush,
    Sync,
    Terminate,
    /// An answer in the course of authentication.
    Password(Vec<u8>),
    /// A call of a function by its number.
    Call,
    /// Data of a COPY that nobody asked for.
    Copy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parse {
    pub(super) name: String,
    pub(super) query: String,
    pub(super) types: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bind {
    pub(super) portal: String,
    pub(super) statement: String,
    pub(super) formats: Vec<u16>,
    pub(super) values: Vec<Option<Vec<u8>>>,
    pub(super) result_formats: Vec<u16>,
}

/// What Describe and Close speak of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Statement(String),
    Portal(String),
}

/// The first packets of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum First {
    Startup {
        minor: u16,
        parameters: Vec<(String, String)>,
    },
    Cancel {
        process: i32,
        secret: Vec<u8>,
    },
    /// Asks for TLS.
    Tls,
    /// Asks for encryption by GSSAPI.
    Gss,
}

/// A body that is no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    /// No message has this letter.
    Unknown(u8),
    /// It is shorter or longer than it says.
    Shape(&'static str),
    /// A text that is not UTF-8.
    NotUtf8,
    /// Another major version than 3.
    Version(u16, u16),
}

/// Reads forward; every step may find that nothing is left.
struct Reader<'a>(&'a [u8]);

type Read<T> = Result<T, Malformed>;

const SHORT: Malformed = Malformed::Shape("it ends too early");

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Read<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| SHORT)
    }

    fn u16(&mut self) -> Read<u16> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn u32(&mut self) -> Read<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn text(&mut self) -> Read<String> {
        let end = self.0.iter().position(|&byte| byte == 0).ok_or(SHORT)?;
        let text = self.take(end)?;
        self.take(1)?;
        let text = std::str::from_utf8(text).map_err(|_| Malformed::NotUtf8)?;
        Ok(text.to_owned())
    }

    /// A count, and so many of these. Each takes a byte at least, so that no count can ask for more than is there.
    fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        let count = self.u16()?;
        (0..count).map(|_| one(self)).collect()
    }

    fn value(&mut self) -> Read<Option<Vec<u8>>> {
        match self.u32()? as i32 {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| SHORT)?;
                Ok(Some(self.take(length)?.to_vec()))
            }
        }
    }

    fn target(&mut self) -> Read<Target> {
        match self.array()? {
            [b'S'] => Ok(Target::Statement(self.text()?)),
            [b'P'] => Ok(Target::Portal(self.text()?)),
            _ => Err(Malformed::Shape("it speaks of neither S nor P")),
        }
    }

    fn end<T>(self, message: T) -> Read<T> {
        match self.0 {
            [] => Ok(message),
            _ => Err(Malformed::Shape("it goes on behind its end")),
        }
    }
}

/// The message with this letter and body.
pub(super) fn message(letter: u8, body: &[u8]) -> Read<Message> {
    let mut reader = Reader(body);
    let message = match letter {
        b'Q' => Message::Query(reader.text()?),
        b'P' => Message::Parse(Parse {
            name: reader.text()?,
            query: reader.text()?,
            types: reader.list(Reader::u32)?,
        }),
        b'B' => Message::Bind(Bind {
            portal: reader.text()?,
            statement: reader.text()?,
            formats: reader.list(Reader::u16)?,
            values: reader.list(Reader::value)?,
            result_formats: reader.list(Reader::u16)?,
        }),
        b'D' => Message::Describe(reader.target()?),
        b'C' => Message::Close(reader.target()?),
        b'E' => Message::Execute {
            portal: reader.text()?,
            // Below zero is all, as in PostgreSQL.
            most: u32::try_from(reader.u32()? as i32).unwrap_or(0),
        },
        b'H' => Message::Flush,
        b'S' => Message::Sync,
        b'X' => Message::Terminate,
        b'p' => return Ok(Message::Password(body.to_vec())),
        b'F' => return Ok(Message::Call),
        b'c' | b'd' | b'f' => return Ok(Message::Copy),
        unknown => return Err(Malformed::Unknown(unknown)),
    };
    reader.end(message)
}

/// The packet with this body, which has no letter.
pub(super) fn first(body: &[u8]) -> Read<First> {
    const CANCEL: u32 = 80_877_102;
    const TLS: u32 = 80_877_103;
    const GSS: u32 = 80_877_104;
    let mut reader = Reader(body);
    match reader.u32()? {
        TLS => reader.end(First::Tls),
        GSS => reader.end(First::Gss),
        CANCEL => {
            let process = reader.u32()? as i32;
            let secret = reader.0.to_vec();
            Ok(First::Cancel { process, secret })
        }
        version => {
            let (major, minor) = ((version >> 16) as u16, version as u16);
            if major != 3 {
                return Err(Malformed::Version(major, minor));
            }
            let mut parameters = Vec::new();
            loop {
                let name = reader.text()?;
                if name.is_empty() {
                    break;
                }
                parameters.push((name, reader.text()?));
            }
            reader.end(First::Startup { minor, parameters })
        }
    }
}

/// The mechanism and the data of the first answer in SASL: the body of its message.
pub(super) fn sasl_first(body: &[u8]) -> Read<(String, Option<Vec<u8>>)> {
    let mut reader = Reader(body);
    let mechanism = reader.text()?;
    let data = reader.value()?;
    reader.end((mechanism, data))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_message_is_read_whole() {
        assert_eq!(
            message(b'Q', b"SELECT 1\0"),
            Ok(Message::Query("SELECT 1".into()))
        );
        let bind = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x01x\xff\xff\xff\xff\0\0";
        let Ok(Message::Bind(bind)) = message(b'B', bind) else {
            panic!("not read");
        };
        assert_eq!(bind.values, [Some(b"x".to_vec()), None]);
        assert_eq!((bind.formats, bind.result_formats), (vec![1], vec![]));
    }

    #[test]
    fn what_is_too_short_too_long_or_not_text_is_refused() {
        assert_eq!(message(b'Q', b"SELECT 1"), Err(SHORT));
        assert_eq!(message(b'B', b"\0\0\xff\xff\0"), Err(SHORT));
        assert_eq!(message(b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff"), Err(SHORT));
        assert!(matches!(message(b'S', b"x"), Err(Malformed::Shape(_))));
        assert!(matches!(message(b'D', b"x\0"), Err(Malformed::Shape(_))));
        assert_eq!(message(b'Q', b"\xff\0"), Err(Malformed::NotUtf8));
        assert_eq!(message(b'?', b""), Err(Malformed::Unknown(b'?')));
        assert_eq!(first(b"\0\x02\0\0"), Err(Malformed::Version(2, 0)));
        assert_eq!(first(b"GET / HT"), Err(Malformed::Version(0x4745, 0x5420)));
    }

    #[test]
    fn rows_below_zero_are_all() {
        let all = message(b'E', b"\0\xff\xff\xff\xff");
        assert_eq!(
            all,
            Ok(Message::Execute {
                portal: String::new(),
                most: 0
            })
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(letter: u8, body: Vec<u8>) {
            let _ = message(letter, &body);
            let _ = first(&body);
            let _ = sasl_first(&body);
        }

        #[test]
        fn a_bind_of_any_counts_is_read_without_a_panic(counts: [u16; 3], rest: Vec<u8>) {
            let mut body = vec![0, 0];
            for count in counts {
                body.extend(count.to_be_bytes());
                body.extend(&rest);
            }
            let _ = message(b'B', &body);
            let _ = message(b'P', &body);
        }
    }
}
